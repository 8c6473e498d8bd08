#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "hgtrain/base/file.h"

namespace hgt {

/// The XXH3 hash of a file's first bytes, read piece by piece. If `stop` is requested, it returns
/// soon, and the result means nothing.
std::uint64_t hash_of_bytes(const File& file, std::int64_t bytes, const std::stop_token& stop = {});
std::uint64_t hash_file(const std::string& path);

/// A hash that tells files apart without reading all of a large one: of the whole file up to
/// 64 MiB, else of its size and of 512 blocks of 16 KiB, evenly spread from the first byte to the
/// last. The same for a copy.
std::uint64_t sampled_hash(const File& file);

}  // namespace hgt
