#include "../../src/data/byte_tokenizer.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/data/tokenizer.h"

#include "../../src/data/bpe_tokenizer.h"

using namespace hgt;
using Catch::Contains;

TEST_CASE("the byte tokenizer takes any bytes and gives them back") {
  const auto tokenizer = Tokenizer::byte();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto ids = tokenizer->encode(all + "<|endoftext|>");
  CHECK(ids.size() == 256 + 13);  // no text stands for end of text
  for (std::size_t i = 0; i < 256; ++i) CHECK(ids[i] == static_cast<int>(i));
  CHECK(tokenizer->decode(ids) == all + "<|endoftext|>");
  CHECK(tokenizer->decode(std::vector{65, 256, 66}) == "A<|endoftext|>B");
  CHECK_THROWS_WITH(tokenizer->decode(std::vector{257}), Contains("257"));
  CHECK_THROWS_WITH(tokenizer->decode(std::vector{-1}), Contains("-1"));
  CHECK(tokenizer->id_of("<|endoftext|>") == 256);
  CHECK(tokenizer->id_of("Ġ") == 32);
  CHECK(tokenizer->id_of("ab") == -1);
}

TEST_CASE("the tokenizer.json it writes is a BPE with the same ids") {
  const auto bpe =
      make_bpe_tokenizer(parse_tokenizer_json(byte_tokenizer_json()), "<|endoftext|>", {});
  const std::string text = "Zwölf Boxkämpfer\r\n 👍🏽 \0 x  ";
  CHECK(bpe->encode(text) == Tokenizer::byte()->encode(text));
  CHECK(bpe->vocab_size() == 257);
  CHECK(bpe->end_of_text() == 256);
}
