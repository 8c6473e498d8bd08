#include "hashing_writer.h"

#include <xxhash.h>

namespace hgt {

namespace {
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
}

HashingWriter::HashingWriter(File& file) : file_(file), state_(XXH3_createState()) {
  buffer_.reserve(kBufferBytes);
  XXH3_64bits_reset(state_.get());
}

void HashingWriter::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

void HashingWriter::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void HashingWriter::flush() {
  XXH3_64bits_update(state_.get(), buffer_.data(), buffer_.size());
  file_.write(buffer_);
  buffer_.clear();
}

std::uint64_t HashingWriter::finish() {
  flush();
  return XXH3_64bits_digest(state_.get());
}

std::uint64_t hash_file(const std::string& path) {
  File file = File::open(path, O_RDONLY);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> buffer(kBufferBytes);
  for (std::size_t got = buffer.size(); got == buffer.size();) {
    got = file.read(buffer);
    XXH3_64bits_update(state.get(), buffer.data(), got);
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace hgt
