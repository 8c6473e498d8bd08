#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "run_reader.h"

namespace hgt {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

/// The limit of the reference implementation.
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

/// Copies the values of `elements` that belong to the part to their places in it.
template <class From>
void deliver(std::span<const From> values, Range elements, const TensorPart& part) {
  visit_element(part.values.dtype(), [&]<class To>(To) {
    To* const first = part.values.data<To>();
    part.for_each_run(elements, [&](const Placement::Run& run) {
      const From* const from = values.data() + (run.whole - elements.begin);
      To* const to = first + (run.local - part.elements.begin);
      if constexpr (std::is_same_v<From, To>)
        std::copy_n(from, run.size, to);
      else
        for (std::int64_t i = 0; i < run.size; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
}

/// Reads elements of a tensor that begins at byte `start` of the file chunk by chunk, and delivers
/// them to the parts; returns the hash of their bytes.
template <class From>
std::uint64_t read_as(RunReader& file, std::int64_t start, Range elements,
                      std::span<const TensorPart> parts) {
  constexpr std::int64_t kChunk = 1 << 15;  // elements, which stay in the cache
  Xxh3 hash;
  std::vector<From> values(static_cast<std::size_t>(std::min(kChunk, elements.size())));
  for (std::int64_t at = elements.begin; at < elements.end; at += kChunk) {
    const Range chunk{at, std::min(at + kChunk, elements.end)};
    const auto now = std::span(values).first(static_cast<std::size_t>(chunk.size()));
    file.read(start + at * static_cast<std::int64_t>(sizeof(From)), std::as_writable_bytes(now));
    hash.update(std::as_bytes(now));
    for (const TensorPart& part : parts) deliver<From>(now, chunk, part);
  }
  return hash.digest();
}

/// The elements of each range; none if these are no ranges of the tensor.
std::vector<Range> elements_of(const TensorInfo& tensor, const std::vector<HashedRange>& ranges) {
  const std::int64_t bytes = tensor.end - tensor.begin;
  const auto size = static_cast<std::int64_t>(size_of(*tensor.dtype));
  std::vector<Range> out;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t begin = ranges[i].begin;
    const std::int64_t end = i + 1 < ranges.size() ? ranges[i + 1].begin : bytes;
    if (begin % size != 0 || begin > end || end > bytes || (i == 0 && begin != 0)) return {};
    out.push_back({begin / size, end / size});
  }
  return out;
}

bool has_any(Range elements, std::span<const TensorPart> parts) {
  bool any = false;
  for (const TensorPart& part : parts)
    part.for_each_run(elements, [&](const Placement::Run&) { any = true; });
  return any;
}

/// The ranges from the first to the last element of each part; overlapping ranges are joined.
std::vector<Range> spans_of(std::span<const TensorPart> parts) {
  std::vector<Range> spans;
  for (const TensorPart& part : parts) {
    Range span;
    part.for_each_run({0, Placement::kAll}, [&](const Placement::Run& run) {
      span = {span.size() > 0 ? span.begin : run.whole, run.whole + run.size};
    });
    if (span.size() > 0) spans.push_back(span);
  }
  std::ranges::sort(spans, {}, &Range::begin);
  std::vector<Range> out;
  for (const Range& span : spans)
    if (!out.empty() && span.begin < out.back().end)
      out.back().end = std::max(out.back().end, span.end);
    else
      out.push_back(span);
  return out;
}

[[noreturn]] void throw_damaged(const std::string& path, const TensorInfo& tensor) {
  throw Error(
      ErrorKind::kData,
      fmt::format("{} is damaged: tensor {} does not have the manifest's hash", path, tensor.name));
}

}  // namespace

std::vector<TensorPart> TensorPart::runs() const {
  std::vector<TensorPart> out;
  for_each_run({0, Placement::kAll}, [&](const Placement::Run& run) {
    const std::int64_t first = run.local - elements.begin;
    out.push_back({{run.whole, run.whole + run.size}, values.slice(0, first, first + run.size)});
  });
  return out;
}

/// Elements of a tensor that are read together.
struct SafetensorsFile::Piece {
  const TensorRequest* wanted;
  Range elements;
  std::optional<std::uint64_t> hash = {};

  Range bytes() const {
    const auto size = static_cast<std::int64_t>(size_of(*wanted->tensor->dtype));
    return {wanted->tensor->begin + elements.begin * size,
            wanted->tensor->begin + elements.end * size};
  }
};

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

std::vector<SafetensorsFile::Piece> SafetensorsFile::pieces_of(const TensorRequest& wanted) const {
  const TensorInfo& tensor = *wanted.tensor;
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16)
    throw Error(ErrorKind::kData, fmt::format("{} has dtype {}; only F32, BF16 and F16 are read",
                                              tensor.name, tensor.dtype_name))
        .in(path());
  std::vector<Piece> out;
  if (wanted.ranges == nullptr) {
    for (const Range& span : spans_of(wanted.parts)) out.push_back({&wanted, span});
    return out;
  }
  const std::vector<Range> elements = elements_of(tensor, *wanted.ranges);
  if (elements.empty()) throw_damaged(path(), tensor);
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (has_any(elements[i], wanted.parts))
      out.push_back({&wanted, elements[i], (*wanted.ranges)[i].hash});
  return out;
}

void SafetensorsFile::read(std::vector<TensorRequest> wanted, bool once,
                           const std::function<void(const TensorInfo&)>& done) const {
  std::ranges::sort(wanted, {}, [](const TensorRequest& request) { return request.tensor->begin; });
  std::vector<std::vector<Piece>> of_requests;
  std::vector<Range> bytes;
  for (const TensorRequest& request : wanted) {
    of_requests.push_back(pieces_of(request));
    for (const Piece& piece : of_requests.back())
      bytes.push_back({data_start_ + piece.bytes().begin, data_start_ + piece.bytes().end});
  }
  RunReader reader(path(), bytes, once);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const TensorInfo& tensor = *wanted[i].tensor;
    for (const auto& [request, elements, hash] : of_requests[i]) {
      std::uint64_t found = 0;
      visit_element(*tensor.dtype, [&]<class From>(From) {
        found = read_as<From>(reader, data_start_ + tensor.begin, elements, request->parts);
      });
      if (hash && *hash != found) throw_damaged(path(), tensor);
    }
    if (done) done(tensor);
  }
}

}  // namespace hgt
