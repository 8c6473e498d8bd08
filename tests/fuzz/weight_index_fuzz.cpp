#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"

#include "../../src/checkpoint/tensor_folder.h"
#include "in_memory.h"

/// Any text next to a file with tensor "a" is an index of it or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hgt::TemporaryFolder folder(hgt::TemporaryFolder::kMemory);
  constexpr std::string_view kFile(
      "\x38\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  "
      "\0\0\0\0",
      68);
  hgt::put(folder / "one.safetensors", kFile);
  hgt::put(folder / "model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
  try {
    hgt::TensorFolder::open(folder.path(), "model")
        .for_each([](const hgt::SafetensorsFile&, const hgt::TensorInfo& tensor) {
          if (tensor.name != "a") __builtin_trap();
        });
  } catch (const hgt::Error&) {
  }
  return 0;
}
