#include <xxhash.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/checkpoint/safetensors.h"

namespace hgt {

namespace {

/// Length and JSON, padded with spaces so that the data starts at a multiple of 8 bytes.
std::string header_of(const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::size_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::size_t end = at + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

WrittenTensors write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  const std::string header = header_of(tensors);
  WrittenTensors written;
  written.header_hash = XXH3_64bits(header.data(), header.size());
  written.bytes = static_cast<std::int64_t>(header.size());
  for (const NamedTensor& tensor : tensors)
    written.bytes += static_cast<std::int64_t>(tensor.values.size_bytes());

  File file = File::open(path, O_WRONLY | O_CREAT | O_EXCL);
  file.reserve(written.bytes);
  file.write(header);
  for (const NamedTensor& tensor : tensors) {
    file.write(std::as_bytes(tensor.values));
    written.tensor_hashes[tensor.name] =
        XXH3_64bits(tensor.values.data(), tensor.values.size_bytes());
  }
  file.sync();
  file.close();
  return written;
}

}  // namespace hgt
