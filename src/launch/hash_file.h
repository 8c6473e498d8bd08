#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <asio/io_context.hpp>

#include "hgtrain/base/error.h"

namespace hgt {

/// Computes xxh3 of a file on the loop, a slice at a time, so that heartbeats continue meanwhile.
/// Then calls `done`, or `failed` if the file cannot be read, but never before this function has
/// returned.
void hash_file(asio::io_context& io, const std::string& path,
               std::function<void(std::uint64_t hash)> done,
               std::function<void(const Error& why)> failed);

}  // namespace hgt
