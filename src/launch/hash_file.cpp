#include "hash_file.h"

#include <memory>
#include <vector>

#include <asio/post.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/xxh3.h"

namespace hgt {
namespace {

constexpr std::size_t kSliceBytes = 8 << 20;

struct Reading {
  File file;
  std::function<void(std::uint64_t)> done;
  std::function<void(const Error&)> failed;
  Xxh3 hash = {};
  std::vector<std::byte> slice = std::vector<std::byte>(kSliceBytes);
};

void read_slice(asio::io_context& io, const std::shared_ptr<Reading>& reading) {
  asio::post(io, [&io, reading] {
    try {
      const std::size_t bytes = reading->file.read(reading->slice);
      if (bytes == 0) return reading->done(reading->hash.digest());
      reading->hash.update(std::span(reading->slice).first(bytes));
    } catch (const Error& e) {
      return reading->failed(e);
    }
    read_slice(io, reading);
  });
}

}  // namespace

void hash_file(asio::io_context& io, const std::string& path,
               std::function<void(std::uint64_t hash)> done,
               std::function<void(const Error& why)> failed) {
  try {
    read_slice(io, std::make_shared<Reading>(
                       Reading{File::open(path, O_RDONLY), std::move(done), failed}));
  } catch (const Error& e) {
    asio::post(io, [failed, e] { failed(e); });
  }
}

}  // namespace hgt
