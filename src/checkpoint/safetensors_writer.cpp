#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/element.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/checkpoint/safetensors.h"

namespace hgt {

namespace {

const char* file_name_of(DType dtype) {
  return dtype == DType::kBF16 ? "BF16" : dtype == DType::kF16 ? "F16" : "F32";
}

/// Length and JSON, padded with spaces so that the data starts at a multiple of 8 bytes.
std::string header_of(const std::vector<NamedTensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::int64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::int64_t end = at + tensor.bytes();
    header[tensor.name] = {{"dtype", file_name_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

/// Writes values as elements of type To, chunk by chunk; returns the hash of their bytes.
template <class To, class From>
std::uint64_t write_as(File& file, std::span<const From> values) {
  if constexpr (std::is_same_v<From, To>) {
    file.write(std::as_bytes(values));
    return xxh3(std::as_bytes(values));
  }
  constexpr std::size_t kChunk = std::size_t{1} << 19;
  Xxh3 hash;
  std::vector<To> chunk;
  for (std::size_t done = 0; done < values.size(); done += chunk.size()) {
    chunk.resize(std::min(kChunk, values.size() - done));
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<float>(values[done + i]);
    const auto bytes = std::as_bytes(std::span(chunk));
    file.write(bytes);
    hash.update(bytes);
  }
  return hash.digest();
}

std::uint64_t write_values(File& file, const NamedTensor& tensor) {
  std::uint64_t hash = 0;
  visit_element(tensor.values.dtype(), [&]<class From>(From) {
    const std::span<const From> values(tensor.values.data<From>(),
                                       static_cast<std::size_t>(tensor.values.numel()));
    visit_element(tensor.dtype, [&]<class To>(To) { hash = write_as<To, From>(file, values); });
  });
  return hash;
}

}  // namespace

WrittenTensors write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  const std::string header = header_of(tensors);
  WrittenTensors written;
  written.header_hash = xxh3(header);
  written.bytes = static_cast<std::int64_t>(header.size());
  for (const NamedTensor& tensor : tensors) written.bytes += tensor.bytes();

  File file = File::open(path, O_WRONLY | O_CREAT | O_EXCL);
  file.reserve(written.bytes);
  file.write(header);
  for (const NamedTensor& tensor : tensors)
    written.tensor_hashes[tensor.name] = write_values(file, tensor);
  file.sync();
  file.close();
  return written;
}

}  // namespace hgt
