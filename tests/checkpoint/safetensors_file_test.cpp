#include <cmath>
#include <cstring>
#include <limits>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/xxh3.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/temporary_folder.h"
#include "written_file.h"

using namespace hgt;

namespace {

std::string file_of(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + data;
}

std::vector<float> read_all(const SafetensorsFile& file, std::size_t index) {
  return read_whole(file, file.tensors()[index]);
}

}  // namespace

TEST_CASE("a fifo in a file's place is refused, without waiting for a writer") {
  TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "m.safetensors").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(SafetensorsFile::open(folder / "m.safetensors"),
                    Catch::Contains("m.safetensors is a pipe, not a file"));
}

TEST_CASE("tensors written are read back bit for bit, and the hashes agree") {
  TemporaryFolder folder;
  std::vector<float> a{1.5f, -0.0f, std::numeric_limits<float>::max(), 1e-42f, 3.0f, 4.0f};
  std::vector<float> b{7.0f}, none;
  const std::vector<WrittenRange> written = write_safetensors(
      folder / "m.safetensors", {{"a", {2, 3}, Tensor(a.data(), {6})},
                                 {"empty \"x\"", {0, 4}, Tensor(none.data(), {0})},
                                 {"b", {}, Tensor(b.data(), {1})}});
  const auto file = SafetensorsFile::open(folder / "m.safetensors");
  REQUIRE(file.tensors().size() == 3);
  const TensorInfo& first = file.tensors()[0];
  CHECK(first.name == "a");
  CHECK(first.shape == std::vector<std::int64_t>{2, 3});
  REQUIRE(written.size() == 2);
  CHECK(written[1].tensor == 2);
  const std::vector<float> back = read_whole(file, first, std::span(&written[0].range, 1));
  CHECK(std::memcmp(back.data(), a.data(), 24) == 0);
  CHECK(read_whole(file, file.tensors()[2], std::span(&written[1].range, 1)) == b);
}

TEST_CASE("half precision is widened exactly") {
  TemporaryFolder folder;
  const std::uint16_t f16[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x8000};
  const std::uint16_t bf16[] = {0x3f80, 0xc000, 0x7f7f, 0x0001};
  std::string data(24, '\0');
  std::memcpy(data.data(), f16, 16);
  std::memcpy(data.data() + 16, bf16, 8);
  write_new_file(folder / "m",
                 file_of(R"({"h":{"dtype":"F16","shape":[8],"data_offsets":[0,16]},)"
                         R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[16,24]}})",
                         data));
  const auto file = SafetensorsFile::open(folder / "m");
  const float inf = std::numeric_limits<float>::infinity();
  const auto half = read_all(file, 0);
  CHECK(half == std::vector<float>{1, -2, 65504, std::ldexp(1.0f, -24), -std::ldexp(1023.0f, -24),
                                   inf, -inf, 0});
  CHECK(std::signbit(half[7]));
  CHECK(read_all(file, 1) == std::vector<float>{1, -2, 3.38953139e38f, std::ldexp(1.0f, -133)});
}

TEST_CASE("a dtype that cannot become fp32 is refused by name, and only when it is read") {
  TemporaryFolder folder;
  write_new_file(folder / "m",
                 file_of(R"({"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "ab"));
  const auto file = SafetensorsFile::open(folder / "m");
  CHECK_THROWS_WITH(read_all(file, 0), "mask has dtype BOOL; only F32, BF16 and F16 are read");
}

TEST_CASE("a header longer than its file is refused before anything is allocated") {
  TemporaryFolder folder;
  write_new_file(folder / "short", "1234567");
  write_new_file(folder / "huge", std::string(8, '\xff') + "{}");
  CHECK_THROWS_WITH(SafetensorsFile::open(folder / "short"), Catch::Contains("too short"));
  try {
    SafetensorsFile::open(folder / "huge");
    FAIL("opened");
  } catch (const Error& e) {
    CHECK_THAT(e.message(), Catch::Contains("its length is 18446744073709551615"));
    CHECK(e.context() == std::vector<std::string>{folder / "huge"});
  }
}

TEST_CASE("a range that has wanted elements is read and checked as a whole, no other is") {
  constexpr std::int64_t kRange = 4 << 20;  // elements of 16 MiB
  const TemporaryFolder folder;
  std::vector<float> values(2 * kRange + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  const Tensor all(values.data(), {std::ssize(values)});
  const std::string path = folder / "m.safetensors";
  std::vector<HashedRange> ranges;
  for (const auto& [tensor, range] : write_safetensors(path, {{"w", {std::ssize(values)}, all}}))
    ranges.push_back(range);
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[2].begin == 8 * kRange);
  const HashedRange whole{0, xxh3(std::as_bytes(std::span(values)))};  // as old manifests have it
  const SafetensorsFile intact = SafetensorsFile::open(path);
  CHECK(read_whole(intact, intact.tensors()[0], std::span(&whole, 1)) == values);

  const std::int64_t data_start = File::open(path, O_RDONLY).size() - std::ssize(values) * 4;
  File::open(path, O_WRONLY).write_at(data_start + 7, std::as_bytes(std::span("x", 1)));
  const SafetensorsFile file = SafetensorsFile::open(path);
  const TensorInfo& tensor = file.tensors()[0];
  const auto read = [&](Range elements, std::span<const HashedRange> expected) {
    std::vector<float> out(static_cast<std::size_t>(elements.size()));
    const TensorPart part{elements, Tensor(out.data(), {std::ssize(out)})};
    const std::vector<HashedRange> all_expected(expected.begin(), expected.end());
    file.read({{&tensor, std::span(&part, 1), &all_expected}}, true);
    return out;
  };
  const std::vector<float> wanted = read({kRange, 2 * kRange + 2}, ranges);
  CHECK(std::equal(wanted.begin(), wanted.end(), values.begin() + kRange));
  const std::string refusal = path + " is damaged: tensor w does not have the manifest's hash";
  CHECK_THROWS_WITH(read({kRange - 1, kRange}, ranges), refusal);
  CHECK_THROWS_WITH(read({2 * kRange, 2 * kRange + 1}, std::span(&whole, 1)), refusal);
  const HashedRange last = ranges[2];
  for (const HashedRange bad :
       {HashedRange{last.begin + 2, last.hash}, HashedRange{std::int64_t{1} << 62, last.hash}}) {
    ranges[2] = bad;
    CHECK_THROWS_WITH(read({2 * kRange, 2 * kRange + 1}, ranges), refusal);
  }
  CHECK_THROWS_WITH(read({2 * kRange, 2 * kRange + 1}, {}), refusal);
  CHECK_THROWS_WITH(read({2 * kRange, 2 * kRange + 1}, std::span(ranges).subspan(1)), refusal);
}
