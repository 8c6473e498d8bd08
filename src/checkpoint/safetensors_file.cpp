#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/checkpoint/safetensors.h"

namespace hgt {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

/// The limit of the reference implementation.
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kChunk = std::size_t{1} << 19;  // elements converted at a time

/// Reads elements of type From as elements of type To, chunk by chunk; returns the hash of the
/// file's bytes.
template <class From, class To>
std::uint64_t read_as(const File& file, std::int64_t start, std::span<To> out) {
  if constexpr (std::is_same_v<From, To>) {
    file.read_at(start, std::as_writable_bytes(out));
    return xxh3(std::as_bytes(out));
  }
  Xxh3 hash;
  std::vector<From> chunk(std::min(kChunk, out.size()));
  for (std::size_t done = 0; done < out.size(); done += chunk.size()) {
    chunk.resize(std::min(kChunk, out.size() - done));
    const auto bytes = std::as_writable_bytes(std::span(chunk));
    file.read_at(start + static_cast<std::int64_t>(done * sizeof(From)), bytes);
    hash.update(bytes);
    for (std::size_t i = 0; i < chunk.size(); ++i) out[done + i] = static_cast<float>(chunk[i]);
  }
  return hash.digest();
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile opened(File::open(path, O_RDONLY));
  try {
    const std::int64_t file_bytes = opened.file_.size();
    std::uint64_t length = 0;
    if (file_bytes < 8) throw Error(ErrorKind::kData, "it is too short for a safetensors file");
    opened.file_.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > static_cast<std::uint64_t>(std::min(file_bytes - 8, kMaxHeaderBytes)))
      throw Error(
          ErrorKind::kData,
          fmt::format("the safetensors header is damaged: its length is {} in a file of {} bytes",
                      length, file_bytes));
    std::string header(8 + length, '\0');
    opened.file_.read_at(0, std::as_writable_bytes(std::span(header)));
    opened.data_start_ = static_cast<std::int64_t>(header.size());
    opened.header_hash_ = xxh3(header);
    opened.tensors_ = parse_safetensors_header(std::string_view(header).substr(8),
                                               file_bytes - opened.data_start_);
  } catch (Error& e) {
    e.in(path);
    throw;
  }
  return opened;
}

std::uint64_t SafetensorsFile::read(const TensorInfo& tensor, const Tensor& out) const {
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
    throw Error(ErrorKind::kData, fmt::format("{} has dtype {}; only F32, BF16 and F16 are read",
                                              tensor.name, tensor.dtype_name))
        .in(path());
  std::uint64_t hash = 0;
  visit_element(*tensor.dtype, [&]<class From>(From) {
    visit_element(out.dtype(), [&]<class To>(To) {
      const std::span values(out.data<To>(), static_cast<std::size_t>(out.numel()));
      hash = read_as<From, To>(file_, data_start_ + tensor.begin, values);
    });
  });
  return hash;
}

}  // namespace hgt
