#include "byte_source.h"

#include <vector>
#include <zlib.h>
#include <zstd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {

namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(File file) : file_(std::move(file)) {}
  std::size_t read(std::span<char> buffer) override {
    const std::size_t got = file_.read(std::as_writable_bytes(buffer));
    taken_ += static_cast<std::int64_t>(got);
    return got;
  }
  std::int64_t bytes_taken() const override { return taken_; }

 private:
  File file_;
  std::int64_t taken_ = 0;
};

/// What both decompressors share: an input buffer that is refilled, and the loop over it.
class CompressedSource : public ByteSource {
 public:
  explicit CompressedSource(File file) : file_(std::move(file)), input_(std::size_t{1} << 17) {}

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      const bool ended = at_ == end_ && !refill();
      const std::size_t got = decompress(buffer.subspan(filled));  // may also hold output back
      filled += got;
      if (!ended || got > 0) continue;
      if (inside_) fail("it ends too early");
      break;
    }
    return filled;
  }
  std::int64_t bytes_taken() const override { return taken_; }

 protected:
  /// Decompresses bytes of input() into `out`, and counts both by progress(). Without input, it
  /// returns output that it still held back.
  virtual std::size_t decompress(std::span<char> out) = 0;
  std::span<std::byte> input() { return std::span(input_).subspan(at_, end_ - at_); }
  std::size_t progress(std::size_t bytes_in, std::size_t bytes_out, bool frame_ended) {
    at_ += bytes_in;
    if (bytes_in > 0 || bytes_out > 0) inside_ = !frame_ended;
    return bytes_out;
  }
  [[noreturn]] void fail(std::string_view what) const {
    const std::int64_t place = taken_ - static_cast<std::int64_t>(end_ - at_);
    throw Error(ErrorKind::kData,
                fmt::format("{} is damaged at byte {}: {}", file_.path(), place, what),
                place > 0 ? "copy or download it again"
                          : "copy or download it again; or, if it is not compressed, rename it");
  }

 private:
  bool refill() {
    at_ = 0;
    end_ = file_.read(input_);
    taken_ += static_cast<std::int64_t>(end_);
    return end_ > 0;
  }
  File file_;
  bool inside_ = false;  ///< a compressed frame has begun and not ended
  std::vector<std::byte> input_;
  std::size_t at_ = 0, end_ = 0;
  std::int64_t taken_ = 0;
};

class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(File file) : CompressedSource(std::move(file)) {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK)  // 16: a gzip header
      throw Error(ErrorKind::kInternal, "zlib does not start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 private:
  std::size_t decompress(std::span<char> out) override {
    const auto in = input();
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fail(stream_.msg != nullptr ? stream_.msg : "no gzip data");
    if (result == Z_STREAM_END) inflateReset(&stream_);  // another member may follow
    return progress(in.size() - stream_.avail_in, room - stream_.avail_out, result == Z_STREAM_END);
  }
  z_stream stream_{};
};

class ZstdSource final : public CompressedSource {
 public:
  explicit ZstdSource(File file)
      : CompressedSource(std::move(file)), stream_(ZSTD_createDStream()) {}

 private:
  std::size_t decompress(std::span<char> out) override {
    const auto bytes = input();
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer room{out.data(), out.size(), 0};
    const std::size_t hint = ZSTD_decompressStream(stream_.get(), &room, &in);
    if (ZSTD_isError(hint) != 0) fail(ZSTD_getErrorName(hint));
    return progress(in.pos, room.pos, hint == 0);
  }
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::open(const std::string& path) {
  File file = File::open(path, O_RDONLY);
  if (path.ends_with(".gz")) return std::make_unique<GzipSource>(std::move(file));
  if (path.ends_with(".zst")) return std::make_unique<ZstdSource>(std::move(file));
  return std::make_unique<PlainSource>(std::move(file));
}

std::string_view without_compression(std::string_view name) {
  if (name.ends_with(".gz"))
    name.remove_suffix(3);
  else if (name.ends_with(".zst"))
    name.remove_suffix(4);
  return name;
}

}  // namespace hgt
