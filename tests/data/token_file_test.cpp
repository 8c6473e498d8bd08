#include "hgtrain/data/token_file.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

namespace {

const std::vector<std::int32_t> kTokens = {5, 0, 100, 7, 120};

template <class T>
void check_megatron_type(std::uint8_t code) {
  const TemporaryFolder folder;
  BytesBuilder().put_all<T>(kTokens).save(folder / "d.bin");
  BytesBuilder().text(megatron_idx({2, 3}, code, sizeof(T))).save(folder / "d.idx");
  for (const char* name : {"d", "d.bin", "d.idx"}) {
    const TokenFile file = TokenFile::open(folder / name);
    CHECK(file.format() == TokenFile::Format::kMegatron);
    CHECK(file.num_documents() == 2);
    CHECK(read_tokens(file) == kTokens);
  }
}

}  // namespace

TEST_CASE("Megatron files of every dtype are read") {
  check_megatron_type<std::uint8_t>(1);
  check_megatron_type<std::int8_t>(2);
  check_megatron_type<std::int16_t>(3);
  check_megatron_type<std::int32_t>(4);
  check_megatron_type<std::int64_t>(5);
  check_megatron_type<double>(6);
  check_megatron_type<float>(7);
  check_megatron_type<std::uint16_t>(8);
}

TEST_CASE("llm.c files are recognised by their header") {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> pad(253);
  BytesBuilder()
      .put_all<std::int32_t>(std::vector{20240520, 1, 5})
      .put_all<std::int32_t>(pad)
      .put_all<std::uint16_t>(kTokens)
      .save(folder / "a.bin");
  BytesBuilder()
      .put_all<std::int32_t>(std::vector{20240801, 7, 5})
      .put_all<std::int32_t>(pad)
      .put_all<std::uint32_t>(kTokens)
      .save(folder / "b.bin");
  for (const char* name : {"a.bin", "b.bin"}) {
    const TokenFile file = TokenFile::open(folder / name);
    CHECK(file.format() == TokenFile::Format::kLlmC);
    CHECK(read_tokens(file) == kTokens);
  }

  std::filesystem::resize_file(folder / "a.bin", 1033);
  CHECK_THROWS_WITH(TokenFile::open(folder / "a.bin"),
                    Contains("a.bin is damaged at byte 8") && Contains("1034") && Contains("1033"));
  BytesBuilder().put_all<std::int32_t>(std::vector{20240520, 2, 0}).save(folder / "c.bin");
  CHECK_THROWS_WITH(TokenFile::open(folder / "c.bin"), Contains("at byte 4: version 2"));
  BytesBuilder().put_all<std::int32_t>(std::vector{20240801, 7, -1}).save(folder / "c.bin");
  CHECK_THROWS_WITH(TokenFile::open(folder / "c.bin"), Contains("counts -1"));
  BytesBuilder().put_all<std::int32_t>(std::vector{20240522, 1, 0}).save(folder / "c.bin");
  CHECK_THROWS_WITH(TokenFile::open(folder / "c.bin"), Contains("evaluation file"));
}

TEST_CASE("a bare file is uint16 unless its type is given") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(kTokens).save(folder / "a.bin");
  CHECK(read_tokens(TokenFile::open(folder / "a.bin")) == kTokens);
  CHECK_THROWS_WITH(TokenFile::open(folder / "a.bin", "uint32"), Contains("ends within a token"));
  CHECK_THROWS_WITH(TokenFile::open(folder / "a.bin", "int7"), Contains("data.token_dtype"));
  BytesBuilder().put_all<std::uint32_t>(std::vector{1, 70000}).save(folder / "b.bin");
  CHECK(read_tokens(TokenFile::open(folder / "b.bin", "uint32")) == std::vector{1, 70000});
}

TEST_CASE("missing files say what was looked for") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TokenFile::open(folder / "x"), Contains("neither"));
  BytesBuilder().text("ab").save(folder / "x.bin");
  CHECK_THROWS_WITH(TokenFile::open(folder / "x"), Contains("idx is missing"));
  BytesBuilder().text(megatron_idx({1}, 8, 2)).save(folder / "y.idx");
  CHECK_THROWS_WITH(TokenFile::open(folder / "y"), Contains("y.bin is missing"));
}

TEST_CASE("an id at or above the limit is refused with its offset") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(std::vector{1, 2, 300}).save(folder / "a.bin");
  CHECK_THROWS_WITH(read_tokens(TokenFile::open(folder / "a.bin"), 300),
                    Contains("token 2 at byte 4") && Contains("vocab_size = 300"));
}

TEST_CASE("a file that is cut short while open gives an error with its name") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(counting(5000)).save(folder / "a.bin");
  const TokenFile file = TokenFile::open(folder / "a.bin");
  std::filesystem::resize_file(folder / "a.bin", 100);
  CHECK_THROWS_WITH(read_tokens(file), Contains("a.bin ends at byte 100"));
}

TEST_CASE("the fingerprint of a replaced file differs") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(counting(100)).save(folder / "a.bin");
  const std::uint64_t before = TokenFile::open(folder / "a.bin").fingerprint();
  CHECK(TokenFile::open(folder / "a.bin").fingerprint() == before);
  CHECK(TokenFile::open(folder / "a.bin").old_fingerprint() != before);
  BytesBuilder().put_all<std::uint16_t>(counting(100, 99)).save(folder / "a.bin");
  CHECK(TokenFile::open(folder / "a.bin").fingerprint() != before);
}

TEST_CASE("the hash of a file is of the tokens that it had when it was opened") {
  const TemporaryFolder folder;
  BytesBuilder().put_all<std::uint16_t>(counting(100)).save(folder / "a.bin");
  const TokenFile file = TokenFile::open(folder / "a.bin");
  const std::uint64_t before = file.whole_hash({});
  BytesBuilder().put_all<std::uint16_t>(counting(101)).save(folder / "a.bin");
  CHECK(file.whole_hash({}) == before);
  CHECK(TokenFile::open(folder / "a.bin").whole_hash({}) != before);
}

TEST_CASE("the manifest of prepared data and a folder are refused in place of tokens") {
  const TemporaryFolder folder;
  for (const char* name : {"a.bin", "a.idx", "a.json"}) write_new_file(folder / name, "{}");
  CHECK_THROWS_WITH(TokenFile::open(folder / "a.json"),
                    folder / "a.json" + " is the manifest of prepared data, not its tokens");
  CHECK_THROWS_WITH(TokenFile::open(folder.path()),
                    folder.path() + " is a folder, not a token file");
}

TEST_CASE("text in place of tokens is refused, with the command that makes tokens of it") {
  const TemporaryFolder folder;
  const auto save = [&](const std::string& bytes) {
    std::ofstream(folder / "a.bin", std::ios::binary) << bytes;
    return TokenFile::open(folder / "a.bin", "auto").num_tokens();
  };
  CHECK_THROWS_WITH(save("Zoë said:\r\n\tyes\n"), Catch::Contains("looks like text, not tokens"));
  CHECK_THROWS_WITH(save(std::string((64 << 10) - 1, 'x') + "ë, and odd"),
                    Catch::Contains("looks like text"));
  CHECK_THROWS_WITH(save(std::string(1000, 'x') + "\f\x1b"), Catch::Contains("looks like text"));
  CHECK(save("ab\x01 ") == 2);
  CHECK(save(std::string(1000, 'x') + std::string(2, '\0')) == 501);
  CHECK(save("\xff\xfe") == 1);
}
