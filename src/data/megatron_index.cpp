#include "megatron_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/checked.h"

#include "damaged_file.h"
#include "hashing_writer.h"

namespace hgt {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian");

namespace {

constexpr std::array<char, 9> kMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr std::int64_t kVersionOffset = 9;
constexpr std::int64_t kTypeOffset = 17;
constexpr std::int64_t kSequencesOffset = 18;
constexpr std::int64_t kDocumentsOffset = 26;
constexpr std::int64_t kLengthsOffset = 34;

/// An array of T at an offset of a file, read piece by piece.
template <class T>
class ArrayReader {
 public:
  ArrayReader(const File& file, std::int64_t offset, std::int64_t count)
      : file_(file), next_(offset), left_(count) {}

  /// The offset of the element that next() returned last.
  std::int64_t offset() const { return next_ - std::ssize(buffer_) * size_ + (at_ - 1) * size_; }

  T next() {
    if (at_ == std::ssize(buffer_)) {
      buffer_.resize(static_cast<std::size_t>(std::min<std::int64_t>(left_, 1 << 16)));
      file_.read_at(next_, std::as_writable_bytes(std::span(buffer_)));
      next_ += std::ssize(buffer_) * size_;
      left_ -= std::ssize(buffer_);
      at_ = 0;
    }
    return buffer_[static_cast<std::size_t>(at_++)];
  }

 private:
  static constexpr std::int64_t size_ = sizeof(T);
  const File& file_;
  std::int64_t next_, left_, at_ = 0;
  std::vector<T> buffer_;
};

template <class T>
T field(const File& file, std::int64_t offset) {
  return ArrayReader<T>(file, offset, 1).next();
}

/// The sum of the sequences' lengths; each must start in the .bin where the one before ends.
std::int64_t check_sequences(const File& file, std::int64_t sequences, TokenType type) {
  ArrayReader<std::int32_t> lengths(file, kLengthsOffset, sequences);
  ArrayReader<std::int64_t> starts(file, kLengthsOffset + 4 * sequences, sequences);
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int32_t length = lengths.next();
    if (length < 0)
      throw damaged_file(file, lengths.offset(),
                         fmt::format("sequence {} has {} tokens", i, length));
    const std::int64_t expected =
        checked_mul(tokens, static_cast<std::int64_t>(size_of(type)), "bytes of tokens");
    if (const std::int64_t start = starts.next(); start != expected)
      throw damaged_file(
          file, starts.offset(),
          fmt::format("sequence {} starts at byte {} of the .bin, the one before ends at {}", i,
                      start, expected));
    tokens = checked_add(tokens, length, "number of tokens");
  }
  return tokens;
}

/// The document index rises from 0 to the number of sequences.
void check_documents(const File& file, std::int64_t sequences, std::int64_t entries) {
  ArrayReader<std::int64_t> index(file, kLengthsOffset + 12 * sequences, entries);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::int64_t at = index.next();
    if (at < before || at > sequences || (i == 0 && at != 0))
      throw damaged_file(file, index.offset(),
                         fmt::format("document {} starts at sequence {} of {}, after {}", i, at,
                                     sequences, before));
    before = at;
  }
  if (before != sequences)
    throw damaged_file(file, index.offset(),
                       fmt::format("the documents end at sequence {} of {}", before, sequences));
}

}  // namespace

MegatronIndex read_megatron_index(const std::string& path) {
  const File file = File::open(path, O_RDONLY);
  const std::int64_t bytes = file.size();
  if (bytes < kLengthsOffset)
    throw damaged_file(file, bytes,
                       fmt::format("it ends within its header of {} bytes", kLengthsOffset));
  std::array<char, 9> magic{};
  file.read_at(0, std::as_writable_bytes(std::span(magic)));
  if (magic != kMagic)
    throw damaged_file(file, 0, "it does not start with MMIDIDX: not a Megatron index");
  if (const auto version = field<std::uint64_t>(file, kVersionOffset); version != 1)
    throw damaged_file(file, kVersionOffset,
                       fmt::format("version {}, but only 1 is known", version));
  const auto code = field<std::uint8_t>(file, kTypeOffset);
  if (code < 1 || code > 8)
    throw damaged_file(file, kTypeOffset, fmt::format("dtype code {} is not from 1 to 8", code));
  const auto type = static_cast<TokenType>(code);

  const auto sequences = field<std::int64_t>(file, kSequencesOffset);
  const auto entries = field<std::int64_t>(file, kDocumentsOffset);
  const bool plausible =
      sequences >= 0 && sequences <= bytes / 12 && entries >= 1 && entries <= bytes / 8;
  if (!plausible || kLengthsOffset + 12 * sequences + 8 * entries != bytes)
    throw damaged_file(
        file, kSequencesOffset,
        fmt::format(
            "the header counts {} sequences and {} index entries, which does not fit a file of "
            "{} bytes",
            sequences, entries, bytes));
  const std::int64_t tokens = check_sequences(file, sequences, type);
  check_documents(file, sequences, entries);
  return {type, entries - 1, tokens};
}

std::uint64_t write_megatron_index(File& file, TokenType type,
                                   std::span<const std::int32_t> lengths) {
  const auto ends_document = [](std::int32_t length) { return length < kMaxSequenceTokens; };
  HashingWriter out(file);
  out.write(std::as_bytes(std::span(kMagic)));
  out.put(std::uint64_t{1});
  out.put(static_cast<std::uint8_t>(type));
  out.put(static_cast<std::int64_t>(lengths.size()));
  out.put(static_cast<std::int64_t>(std::ranges::count_if(lengths, ends_document) + 1));
  out.write(std::as_bytes(lengths));
  std::int64_t start = 0;
  for (const std::int32_t length : lengths) {
    out.put(start);
    start += length * static_cast<std::int64_t>(size_of(type));
  }
  out.put(std::int64_t{0});
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (ends_document(lengths[i])) out.put(static_cast<std::int64_t>(i + 1));
  return out.finish();
}

}  // namespace hgt
