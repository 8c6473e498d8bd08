#include "../../src/data/megatron_index.h"

#include <cstring>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "support/temporary_folder.h"
#include "token_files.h"

using namespace hgt;
using Catch::Contains;

namespace {

/// What reading a damaged .idx says.
std::string message_for_idx(const std::string& idx) {
  const TemporaryFolder folder;
  BytesBuilder().text(idx).save(folder / "d.idx");
  try {
    read_megatron_index(folder / "d.idx");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kData);
    CHECK_THAT(e.message(), Contains(folder / "d."));
    return e.message();
  }
  return "";
}

template <class T>
std::string with(std::string bytes, std::size_t offset, T value) {
  std::memcpy(&bytes.at(offset), &value, sizeof value);
  return bytes;
}

std::string written(const std::vector<std::int32_t>& lengths) {
  const TemporaryFolder folder;
  {
    File file = File::open(folder / "d.idx", O_WRONLY | O_CREAT);
    write_megatron_index(file, TokenType::kUint16, lengths);
  }
  return read_file(folder / "d.idx", 1 << 20);
}

}  // namespace

TEST_CASE("a damaged Megatron index is refused with the byte offset") {
  const std::string good = megatron_idx({2, 3}, 8, 2);
  CHECK(message_for_idx(good) == "");
  CHECK_THAT(message_for_idx(good.substr(0, 20)), Contains("at byte 20"));
  CHECK_THAT(message_for_idx(""), Contains("at byte 0"));
  CHECK_THAT(message_for_idx(with(good, 3, 'x')), Contains("at byte 0: it does not start"));
  CHECK_THAT(message_for_idx(with<std::uint64_t>(good, 9, 2)), Contains("at byte 9: version 2"));
  CHECK_THAT(message_for_idx(with<std::uint8_t>(good, 17, 9)), Contains("byte 17: dtype code 9"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 18, 3)), Contains("counts 3 sequences"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 18, -1)), Contains("counts -1 sequences"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 26, 1ll << 61)), Contains("does not fit"));
  CHECK_THAT(message_for_idx(good + "x"), Contains("does not fit a file of"));
  CHECK_THAT(message_for_idx(with<std::int32_t>(good, 38, -3)),
             Contains("at byte 38: sequence 1 has -3 tokens"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 50, 6)),
             Contains("at byte 50: sequence 1 starts at byte 6"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 58, 1)), Contains("at byte 58"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 66, 3)), Contains("at byte 66"));
  CHECK_THAT(message_for_idx(with<std::int64_t>(good, 74, 1)), Contains("end at sequence 1 of 2"));
}

TEST_CASE("an index is written as Megatron writes it") {
  CHECK(written({2, 3}) == megatron_idx({2, 3}, 8, 2));
  CHECK(written({}) == megatron_idx({}, 8, 2));
}

TEST_CASE("a document longer than a sequence can be is several sequences") {
  const TemporaryFolder folder;
  BytesBuilder()
      .text(written({5, kMaxSequenceTokens, 7, kMaxSequenceTokens, 0}))
      .save(folder / "d.idx");
  const MegatronIndex index = read_megatron_index(folder / "d.idx");
  CHECK(index.num_documents == 3);
  CHECK(index.num_tokens == 12 + 2 * kMaxSequenceTokens);
}
