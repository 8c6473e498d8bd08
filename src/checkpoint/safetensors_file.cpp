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
constexpr std::int64_t kPieceBytes = 1 << 20;

Range common(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Puts those of the values of `elements` that belong to the part where they belong.
template <class From>
void deliver(std::span<const From> values, Range elements, const TensorPart& part) {
  const Range shared = common(elements, part.elements);
  if (shared.size() <= 0) return;
  const From* const from = values.data() + (shared.begin - elements.begin);
  visit_element(part.values.dtype(), [&]<class To>(To) {
    To* const to = part.values.data<To>() + (shared.begin - part.elements.begin);
    if constexpr (std::is_same_v<From, To>)
      std::copy_n(from, shared.size(), to);
    else
      for (std::int64_t i = 0; i < shared.size(); ++i) to[i] = static_cast<float>(from[i]);
  });
}

/// Reads elements of a tensor that begins at byte `start` of the file piece by piece, and delivers
/// them to the parts; returns the hash of their bytes.
template <class From>
std::uint64_t read_as(const File& file, std::int64_t start, Range elements,
                      std::span<const TensorPart> parts) {
  constexpr std::int64_t kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(From));
  Xxh3 hash;
  std::vector<From> values(static_cast<std::size_t>(std::min(kPiece, elements.size())));
  for (std::int64_t at = elements.begin; at < elements.end; at += kPiece) {
    const Range piece{at, std::min(at + kPiece, elements.end)};
    const auto now = std::span(values).first(static_cast<std::size_t>(piece.size()));
    file.read_at(start + at * static_cast<std::int64_t>(sizeof(From)), std::as_writable_bytes(now));
    hash.update(std::as_bytes(now));
    for (const TensorPart& part : parts) deliver<From>(now, piece, part);
  }
  return hash.digest();
}

std::uint64_t read_elements(const File& file, DType dtype, std::int64_t start, Range elements,
                            std::span<const TensorPart> parts) {
  std::uint64_t hash = 0;
  visit_element(dtype,
                [&]<class From>(From) { hash = read_as<From>(file, start, elements, parts); });
  return hash;
}

/// The elements of each block; none if these are no blocks of the tensor.
std::vector<Range> elements_of(const TensorInfo& tensor, std::span<const HashedBlock> blocks) {
  const std::int64_t bytes = tensor.end - tensor.begin;
  const auto size = static_cast<std::int64_t>(size_of(*tensor.dtype));
  std::vector<Range> out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t begin = blocks[i].begin;
    const std::int64_t end = i + 1 < blocks.size() ? blocks[i + 1].begin : bytes;
    if (begin % size != 0 || begin > end || end > bytes || (i == 0 && begin != 0)) return {};
    out.push_back({begin / size, end / size});
  }
  return out;
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

void SafetensorsFile::require_readable(const TensorInfo& tensor) const {
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
    throw Error(ErrorKind::kData, fmt::format("{} has dtype {}; only F32, BF16 and F16 are read",
                                              tensor.name, tensor.dtype_name))
        .in(path());
}

void SafetensorsFile::read(const TensorInfo& tensor, std::span<const TensorPart> parts) const {
  require_readable(tensor);
  for (const TensorPart& part : parts)
    read_elements(file_, *tensor.dtype, data_start_ + tensor.begin, part.elements,
                  std::span(&part, 1));
}

void SafetensorsFile::read(const TensorInfo& tensor, std::span<const TensorPart> parts,
                           std::span<const HashedBlock> blocks) const {
  require_readable(tensor);
  const std::vector<Range> elements = elements_of(tensor, blocks);
  bool whole = !elements.empty();
  for (std::size_t i = 0; i < elements.size() && whole; ++i)
    if (std::ranges::any_of(parts, [&](const TensorPart& part) {
          return common(elements[i], part.elements).size() > 0;
        }))
      whole = read_elements(file_, *tensor.dtype, data_start_ + tensor.begin, elements[i], parts) ==
              blocks[i].hash;
  if (!whole)
    throw Error(ErrorKind::kData,
                fmt::format("{} is damaged: tensor {} does not have the manifest's hash", path(),
                            tensor.name));
}

}  // namespace hgt
