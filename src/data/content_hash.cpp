#include "content_hash.h"

#include <algorithm>
#include <vector>

#include "hgtrain/base/xxh3.h"

namespace hgt {

namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kWholeBytes = 64 << 20;
constexpr std::int64_t kBlocks = 512;
constexpr std::int64_t kBlockBytes = 16 << 10;

}  // namespace

std::uint64_t hash_of_bytes(const File& file, std::int64_t bytes, const std::stop_token& stop) {
  Xxh3 hash;
  std::vector<std::byte> buffer(kPieceBytes);
  for (std::int64_t at = 0; at < bytes && !stop.stop_requested(); at += kPieceBytes) {
    const auto piece =
        std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, bytes - at)));
    file.read_at(at, piece);
    hash.update(piece);
  }
  return hash.digest();
}

std::uint64_t hash_file(const std::string& path) {
  const File file = File::open(path, O_RDONLY);
  return hash_of_bytes(file, file.size());
}

std::uint64_t sampled_hash(const File& file) {
  const std::int64_t bytes = file.size();
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(&bytes, 1)));
  std::vector<std::byte> buffer;
  const auto add = [&](std::int64_t at, std::int64_t count) {
    buffer.resize(static_cast<std::size_t>(count));
    file.read_at(at, buffer);
    hash.update(buffer);
  };
  if (bytes <= kWholeBytes)
    for (std::int64_t at = 0; at < bytes; at += kPieceBytes)
      add(at, std::min(kPieceBytes, bytes - at));
  else
    for (std::int64_t block = 0; block < kBlocks; ++block)
      add(block + 1 < kBlocks ? bytes / kBlocks * block : bytes - kBlockBytes, kBlockBytes);
  return hash.digest();
}

}  // namespace hgt
