#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/checkpoint/safetensors.h"

/// Three bytes for the size of the data, the rest is a header: it is refused with an Error, or its
/// tensors fill the data exactly.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::int64_t data_bytes = data[0] | data[1] << 8 | data[2] << 16;
  const std::string_view json(reinterpret_cast<const char*>(data) + 3, size - 3);
  try {
    std::int64_t at = 0;
    for (const hgt::TensorInfo& tensor : hgt::parse_safetensors_header(json, data_bytes)) {
      if (tensor.begin != at || tensor.end < tensor.begin) __builtin_trap();
      at = tensor.end;
    }
    if (at != data_bytes) __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
