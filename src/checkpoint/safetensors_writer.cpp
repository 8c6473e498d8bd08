#include <algorithm>
#include <cmath>

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

template <class Element>
void require_finite(const std::string& name, std::span<const Element> values, std::size_t offset) {
  const auto is_bad = [](Element x) { return !std::isfinite(static_cast<float>(x)); };
  // Without a branch for each element, which the compiler turns into vector instructions.
  bool bad = false;
  for (const Element x : values) bad |= is_bad(x);
  if (!bad) return;
  const auto first = std::find_if(values.begin(), values.end(), is_bad);
  const auto value = static_cast<float>(*first);
  throw Error(ErrorKind::kGuard,
              fmt::format("element {} of {} is {}",
                          offset + static_cast<std::size_t>(first - values.begin()), name,
                          std::isnan(value) ? "nan"
                          : value > 0       ? "inf"
                                            : "-inf"),
              "a lower learning rate or weight decay, or a longer warmup");
}

/// Writes values as elements of type To, chunk by chunk; returns the hash of their bytes.
template <class To, class From>
std::uint64_t write_as(File& file, const std::string& name, std::span<const From> values) {
  constexpr std::size_t kChunk = std::size_t{1} << 19;
  Xxh3 hash;
  std::vector<To> converted;
  for (std::size_t done = 0; done < values.size();) {
    const auto from = values.subspan(done, std::min(kChunk, values.size() - done));
    std::span<const To> chunk;
    if constexpr (std::is_same_v<From, To>) {
      chunk = from;
    } else {
      converted.resize(from.size());
      for (std::size_t i = 0; i < from.size(); ++i) converted[i] = static_cast<float>(from[i]);
      chunk = converted;
    }
    require_finite(name, chunk, done);
    file.write(std::as_bytes(chunk));
    hash.update(std::as_bytes(chunk));
    done += from.size();
  }
  return hash.digest();
}

std::uint64_t write_values(File& file, const NamedTensor& tensor) {
  std::uint64_t hash = 0;
  visit_element(tensor.values.dtype(), [&]<class From>(From) {
    const std::span<const From> values(tensor.values.data<From>(),
                                       static_cast<std::size_t>(tensor.values.numel()));
    visit_element(tensor.dtype,
                  [&]<class To>(To) { hash = write_as<To, From>(file, tensor.name, values); });
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
