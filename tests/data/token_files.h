#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "hgtrain/data/token_file.h"

namespace hgt {

/// Token files as the programs that define the formats write them, byte by byte.
class BytesBuilder {
 public:
  template <class T>
  BytesBuilder& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  template <class T, class Values>
  BytesBuilder& put_all(const Values& values) {
    for (const auto value : values) put(static_cast<T>(value));
    return *this;
  }
  BytesBuilder& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  void save(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes_; }

 private:
  std::string bytes_;
};

/// 0, 1, ..., n - 1 and so on again from 0 at `modulus`.
inline std::vector<std::int64_t> counting(std::int64_t n, std::int64_t modulus = 1 << 15) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(i % modulus);
  return values;
}

/// The .idx of documents of these lengths.
inline std::string megatron_idx(const std::vector<std::int32_t>& lengths, std::uint8_t code,
                                std::int64_t token_bytes) {
  BytesBuilder idx;
  idx.text(std::string("MMIDIDX\0\0", 9)).put<std::uint64_t>(1).put(code);
  idx.put<std::int64_t>(std::ssize(lengths)).put<std::int64_t>(std::ssize(lengths) + 1);
  idx.put_all<std::int32_t>(lengths);
  std::int64_t start = 0;
  for (const std::int32_t length : lengths) {
    idx.put(start);
    start += length * token_bytes;
  }
  for (std::int64_t i = 0; i <= std::ssize(lengths); ++i) idx.put(i);
  return idx.bytes();
}

/// All tokens of the file; an Error if one is not below `limit`.
inline std::vector<std::int32_t> read_tokens(const TokenFile& file, std::int64_t limit = 1 << 30) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, tokens, limit);
  return tokens;
}

}  // namespace hgt
