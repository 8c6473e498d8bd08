#include "safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/element.h"
#include "hgtrain/base/error_texts.h"
#include "hgtrain/base/xxh3.h"

#include "run_writer.h"

namespace hgt {

namespace {

constexpr std::int64_t kRangeBytes = 16 << 20;
constexpr std::int64_t kConverted = 1 << 15;  // elements at a time, which stay in the cache

const char* file_name_of(DType dtype) {
  return dtype == DType::kBF16 ? "BF16" : dtype == DType::kF16 ? "F16" : "F32";
}

template <class Element>
void require_finite(const std::string& name, std::span<const Element> values, std::int64_t first) {
  const auto is_bad = [](Element x) { return !std::isfinite(static_cast<float>(x)); };
  // Without a branch for each element, which the compiler turns into vector instructions.
  bool bad = false;
  for (const Element x : values) bad |= is_bad(x);
  if (!bad) return;
  const auto found = std::find_if(values.begin(), values.end(), is_bad);
  const auto value = static_cast<float>(*found);
  throw Error(ErrorKind::kCheck,
              fmt::format("a value to be saved is not finite: element {} of {} is {}",
                          first + (found - values.begin()), name,
                          std::isnan(value) ? "nan"
                          : value > 0       ? "inf"
                                            : "-inf"),
              fmt::format("{} or the weight decay, or lengthen the warmup", kLowerRate));
}

/// Writes the elements `range` of a part as elements of type To, chunk by chunk; returns the hash
/// of their bytes. The tensor begins at byte `start` of the file.
template <class From, class To>
std::uint64_t write_as(RunWriter& file, std::int64_t start, const std::string& name,
                       const TensorPart& part, Range range) {
  Xxh3 hash;
  std::vector<To> converted;
  for (std::int64_t at = range.begin; at < range.end; at += kConverted) {
    const std::span<const From> from(
        part.values.data<From>() + (at - part.elements.begin),
        static_cast<std::size_t>(std::min(kConverted, range.end - at)));
    std::span<const To> chunk;
    if constexpr (std::is_same_v<From, To>) {
      chunk = from;
    } else {
      converted.resize(from.size());
      for (std::size_t i = 0; i < from.size(); ++i) converted[i] = static_cast<float>(from[i]);
      chunk = converted;
    }
    require_finite(name, chunk, at);
    hash.update(std::as_bytes(chunk));
    file.put(start + at * static_cast<std::int64_t>(sizeof(To)), std::as_bytes(chunk));
  }
  return hash.digest();
}

std::uint64_t write_range(RunWriter& file, std::int64_t start, const NamedTensor& tensor,
                          const TensorPart& part, Range range) {
  std::uint64_t hash = 0;
  visit_element(part.values.dtype(), [&]<class From>(From) {
    visit_element(tensor.dtype, [&]<class To>(To) {
      hash = write_as<From, To>(file, start, tensor.name, part, range);
    });
  });
  return hash;
}

}  // namespace

std::int64_t NamedTensor::bytes() const {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t n : shape) bytes *= n;
  return bytes;
}

std::string safetensors_header(const std::vector<NamedTensor>& tensors) {
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
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned, too
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

ManifestFile create_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  const std::string header = safetensors_header(tensors);
  auto bytes = static_cast<std::int64_t>(header.size());
  for (const NamedTensor& tensor : tensors) bytes += tensor.bytes();
  File file = File::open(path, O_WRONLY | O_CREAT | O_EXCL);
  file.reserve(bytes);
  file.write(header);
  file.truncate(bytes);
  file.close();
  return {bytes, xxh3(header), {}};
}

template <class Action>
void PartsWriter::attempt(const Action& action) {
  if (failed_) return;
  try {
    action();
  } catch (...) {
    failed_ = std::current_exception();
  }
}

std::vector<WrittenRange> PartsWriter::write(const std::string& path,
                                             const std::vector<NamedTensor>& tensors) {
  std::vector<WrittenRange> written;
  std::optional<RunWriter> file;
  attempt([&] { file.emplace(path); });
  auto start = static_cast<std::int64_t>(safetensors_header(tensors).size());
  for (std::size_t i = 0; i < tensors.size(); start += tensors[i++].bytes()) {
    const NamedTensor& tensor = tensors[i];
    const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
    const auto write_contiguous = [&](const TensorPart& part) {
      for (const Range& range : ranges_of(part.elements, kRangeBytes / size))
        written.push_back({static_cast<std::int64_t>(i),
                           {range.begin * size, write_range(*file, start, tensor, part, range)}});
    };
    for (const TensorPart& part : tensor.parts)
      if (tensor.of_ranks.empty())
        attempt([&] { write_contiguous(part); });
      else
        exchange_.assemble(part, tensor.of_ranks, [&](const TensorPart& whole) {
          attempt([&] { write_contiguous(whole); });
        });
  }
  attempt([&] { file->finish(); });
  return written;
}

void PartsWriter::finish() {
  if (failed_) std::rethrow_exception(failed_);
}

}  // namespace hgt
