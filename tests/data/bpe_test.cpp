#include "../../src/data/bpe.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;
using Catch::Contains;

namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const Bpe& bpe, std::string_view word) {
  Ids ids;
  bpe.encode(word, ids);
  return ids;
}

const Bpe::Vocabulary kLetters = {{"a", 0},  {"b", 1},   {"c", 2}, {"ab", 3},
                                  {"bc", 4}, {"abc", 5}, {"aa", 6}};

}  // namespace

TEST_CASE("the pair of lowest rank is merged first, the leftmost of equals") {
  const Bpe bpe(kLetters, {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}}, {});
  CHECK(encode(bpe, "abc") == Ids{5});
  CHECK(encode(bpe, "ab") == Ids{3});
  CHECK(encode(bpe, "aaa") == Ids{6, 0});
  CHECK(encode(bpe, "abab") == Ids{3, 3});
  CHECK(encode(bpe, "") == Ids{});
}

TEST_CASE("a word of the vocabulary is one token if merges are ignored") {
  CHECK(encode(Bpe(kLetters, {}, {}), "abc") == Ids{0, 1, 2});
  CHECK(encode(Bpe(kLetters, {}, {.ignore_merges = true}), "abc") == Ids{5});
  CHECK(encode(Bpe(kLetters, {}, {.ignore_merges = true}), "abcb") == Ids{0, 1, 2, 1});
}

TEST_CASE("unknown characters are left out, become the unknown token, or their bytes") {
  Bpe::Vocabulary vocabulary = kLetters;
  vocabulary.insert({{"<unk>", 9}, {"<0xC3>", 10}, {"<0xA9>", 11}});
  CHECK(encode(Bpe(vocabulary, {}, {}), "aéb") == Ids{0, 1});
  CHECK(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>"}), "aéüb") == Ids{0, 9, 9, 1});
  CHECK(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>", .fuse_unk = true}), "aéüb") ==
        Ids{0, 9, 1});
  CHECK(encode(Bpe(vocabulary, {}, {.unk_token = "<unk>", .byte_fallback = true}), "éü") ==
        Ids{10, 11, 9});
}

TEST_CASE("long words take no quadratic time") {
  const Bpe bpe({{"a", 0}, {"aa", 1}, {"aaaa", 2}}, {{"a", "a"}, {"aa", "aa"}}, {});
  CHECK(encode(bpe, std::string(1 << 20, 'a')) == Ids(1 << 18, 2));
}

TEST_CASE("merges must be made of tokens") {
  CHECK_THROWS_WITH(Bpe(kLetters, {{"a", "x"}}, {}), Contains("\"x\""));
  CHECK_THROWS_WITH(Bpe(kLetters, {{"c", "a"}}, {}), Contains("\"ca\""));
  CHECK_THROWS_WITH(Bpe(kLetters, {}, {.unk_token = "<unk>"}), Contains("<unk>"));
}
