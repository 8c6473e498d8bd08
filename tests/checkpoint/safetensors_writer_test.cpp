#include "safetensors_writer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/half.h"

#include "support/temporary_folder.h"
#include "written_file.h"

using namespace hgt;

TEST_CASE("tensors are rounded to the type they are written in, and hashed as they lie there") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  std::vector<float> values{1.0f, -0.1f, 3.14159265f, 1e-6f, 65519.0f, 0.0f};
  const std::vector<DType> dtypes{DType::kF32, DType::kBF16, DType::kF16};
  std::vector<WholeTensor> tensors;
  for (const DType dtype : dtypes)
    tensors.push_back({std::string(name_of(dtype)), {2, 3}, Tensor(values.data(), {6}), dtype});
  const std::vector<WrittenRange> written = write_safetensors(path, tensors);

  const SafetensorsFile file = SafetensorsFile::open(path);
  REQUIRE(file.tensors().size() == dtypes.size());
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    std::vector<float> expected = values;
    if (tensor.dtype == DType::kBF16)
      std::transform(values.begin(), values.end(), expected.begin(),
                     [](float x) { return BFloat16(x); });
    if (tensor.dtype == DType::kF16)
      std::transform(values.begin(), values.end(), expected.begin(),
                     [](float x) { return Half(x); });
    CHECK(tensor.name == name_of(*tensor.dtype));
    CHECK(tensor.shape == std::vector<std::int64_t>{2, 3});
    CHECK(read_whole(file, tensor, std::span(&written[i].range, 1)) == expected);
  }
}

TEST_CASE(
    "a number that is not finite in the type it is written in is refused by name and element") {
  const TemporaryFolder folder;
  std::vector<float> values(600'000, 1.0f);
  const auto error_of = [&](std::size_t at, float value, DType dtype) -> std::string {
    values[at] = value;
    const WholeTensor tensor{"w", {600'000}, Tensor(values.data(), {600'000}), dtype};
    std::string message;
    try {
      write_safetensors(folder / (std::to_string(at) + std::string(name_of(dtype))), {tensor});
    } catch (const Error& error) {
      CHECK(error.exit_code() == 5);
      message = error.message();
    }
    values[at] = 1.0f;
    return message;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(error_of(0, -std::numeric_limits<float>::quiet_NaN(), DType::kF32) ==
        "a value to be saved is not finite: element 0 of w is nan");
  CHECK(error_of(599'999, kInfinity, DType::kF32) ==
        "a value to be saved is not finite: element 599999 of w is inf");
  CHECK(error_of(524'288, -kInfinity, DType::kBF16) ==
        "a value to be saved is not finite: element 524288 of w is -inf");
  CHECK(error_of(7, 1e5f, DType::kF16) ==
        "a value to be saved is not finite: element 7 of w is inf");
  CHECK(error_of(8, 1e5f, DType::kBF16) == "");
}

TEST_CASE("ranks that write parts of a file make the file that one rank writes") {
  const TemporaryFolder folder;
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return TensorPart{{begin, end}, Tensor(values.data() + begin, {end - begin})};
  };
  const auto tensors = [](std::vector<TensorPart> a, std::vector<TensorPart> b) {
    return std::vector<NamedTensor>{{"a", {1000}, DType::kBF16, std::move(a)},
                                    {"b", {10, 50}, DType::kF32, std::move(b)}};
  };
  const auto whole = tensors({part(0, 1000)}, {part(0, 500)});
  create_safetensors(folder / "one", whole);
  write_parts(folder / "one", whole);
  const ManifestFile created = create_safetensors(folder / "three", whole);
  write_parts(folder / "three", tensors({part(300, 999)}, {}));
  CHECK(write_parts(folder / "three", tensors({}, {})).empty());
  write_parts(folder / "three", tensors({part(0, 300), part(999, 1000)}, {part(0, 500)}));
  const std::string text = read_file(folder / "three", 1 << 20);
  CHECK(text == read_file(folder / "one", 1 << 20));
  CHECK(created.bytes == std::ssize(text));
  CHECK(created.hash == SafetensorsFile::open(folder / "one").header_hash());
}
