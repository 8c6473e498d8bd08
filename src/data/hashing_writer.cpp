#include "hashing_writer.h"

namespace hgt {

namespace {
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
}

HashingWriter::HashingWriter(File& file) : file_(file) {
  buffer_.reserve(kBufferBytes);
}

void HashingWriter::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void HashingWriter::flush() {
  hash_.update(buffer_);
  file_.write(buffer_);
  buffer_.clear();
}

std::uint64_t HashingWriter::finish() {
  flush();
  return hash_.digest();
}

}  // namespace hgt
