#include <algorithm>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("tensors are rounded to the type they are written in, and hashed as they lie there") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  std::vector<float> values{1.0f, -0.1f, 3.14159265f, 1e-6f, 65519.0f, 0.0f};
  const std::vector<DType> dtypes{DType::kF32, DType::kBF16, DType::kF16};
  std::vector<NamedTensor> tensors;
  for (const DType dtype : dtypes)
    tensors.push_back({std::string(name_of(dtype)), {2, 3}, Tensor(values.data(), {6}), dtype});
  const WrittenTensors written = write_safetensors(path, tensors);

  const SafetensorsFile file = SafetensorsFile::open(path);
  REQUIRE(file.tensors().size() == dtypes.size());
  for (const TensorInfo& tensor : file.tensors()) {
    std::vector<float> read(values.size()), expected = values;
    if (tensor.dtype == DType::kBF16)
      std::transform(values.begin(), values.end(), expected.begin(),
                     [](float x) { return BFloat16(x); });
    if (tensor.dtype == DType::kF16)
      std::transform(values.begin(), values.end(), expected.begin(),
                     [](float x) { return Half(x); });
    CHECK(tensor.name == name_of(*tensor.dtype));
    CHECK(tensor.shape == std::vector<std::int64_t>{2, 3});
    CHECK(file.read(tensor, Tensor(read.data(), {6})) == written.tensor_hashes.at(tensor.name));
    CHECK(read == expected);
  }
}
