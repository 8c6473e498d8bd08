#include "hgtrain/base/terminal.h"

#include <iostream>
#include <sstream>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("plain text, and that of any language, is printed as it is") {
  for (const char* text :
       {"", "loss 1.5\n\ttab", "größer 日本語 🙂", "\xc2\xa0", "\xf4\x8f\xbf\xbf"})
    CHECK(printable(text) == text);
}

TEST_CASE("what a terminal takes for a command is written out") {
  CHECK(printable("\x1b[31mred\x1b]0;title\a") == "\\u001b[31mred\\u001b]0;title\\u0007");
  CHECK(printable("50 %\r\b\b\x7f") == "50 %\\u000d\\u0008\\u0008\\u007f");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\u0000b");
  CHECK(printable("\xc2\x9b"
                  "5m") == "\\u009b5m");  // a CSI of one character
}

TEST_CASE("text that a terminal would show in another order than it is stored in is written out") {
  CHECK(printable("a\u202etxt.exe\u2066\u2069\u200f\u061c\u2028") ==
        "a\\u202etxt.exe\\u2066\\u2069\\u200f\\u061c\\u2028");
}

TEST_CASE(
    "bytes that are not UTF-8 are written out one by one, and what follows them is not lost") {
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xe6\x97"
                  "a") ==
        "\\xe6\\x97"
        "a");                                                      // cut
  CHECK(printable("\xc0\x9b") == "\\xc0\\x9b");                    // longer than it need be
  CHECK(printable("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");           // the same
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half a surrogate pair
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST_CASE(
    "a message to the user is safe for a terminal, and a stream that cannot be written to stops "
    "nothing") {
  std::ostringstream taken;
  std::streambuf* const before = std::cerr.rdbuf(taken.rdbuf());
  tell("{}\n", "\x1b");
  std::cerr.rdbuf(nullptr);
  tell("lost");
  std::cerr.rdbuf(before);
  std::cerr.clear();
  CHECK(taken.str() == "\\u001b\n");
}
