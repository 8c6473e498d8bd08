#include "../../src/data/byte_source.h"

#include <filesystem>
#include <vector>
#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;

namespace {

std::string gzip(const std::string& text, const std::string& path) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_file(path, 1 << 28);
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// Everything, read by small and large buffers in turn.
std::string read_all(const std::string& path) {
  const auto source = ByteSource::open(path);
  std::string out;
  std::vector<char> buffer;
  for (std::size_t size = 1;; size = size * 7 % 100003 + 1) {
    buffer.resize(size);
    const std::size_t got = source->read(buffer);
    out.append(buffer.data(), got);
    if (got < size) break;
  }
  CHECK(source->bytes_taken() == static_cast<std::int64_t>(std::filesystem::file_size(path)));
  return out;
}

}  // namespace

TEST_CASE("plain, gzip and zstd files give the same text, also with several members") {
  const TemporaryFolder folder;
  std::string text = "start ";
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919LL % 10007);
  text += std::string(2000000, 'x');  // much text out of few bytes: decompressors hold output back
  write_new_file(folder / "plain", text);
  write_new_file(folder / "two.gz", gzip(text, folder / "t") + gzip("more", folder / "t"));
  write_new_file(folder / "two.zst", zstd(text) + zstd("more"));
  CHECK(read_all(folder / "plain") == text);
  CHECK(read_all(folder / "two.gz") == text + "more");
  CHECK(read_all(folder / "two.zst") == text + "more");
}

TEST_CASE("empty files are empty") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "a.gz", "a.zst"}) {
    write_new_file(folder / name, "");
    CHECK(read_all(folder / name) == "");
  }
  write_new_file(folder / "b.gz", gzip("", folder / "t"));
  write_new_file(folder / "b.zst", zstd(""));
  CHECK(read_all(folder / "b.gz") == "");
  CHECK(read_all(folder / "b.zst") == "");
}

TEST_CASE("damaged compressed files are named with the byte offset") {
  const TemporaryFolder folder;
  const std::string text(5000, 'y');
  const auto check = [&](const std::string& name, std::string bytes, const char* what) {
    write_file_atomically(folder / name, bytes);
    CHECK_THROWS_WITH(read_all(folder / name),
                      Contains(name + " is damaged at byte") && Contains(what));
  };
  const std::string gz = gzip(text, folder / "t"), zst = zstd(text);
  check("a.gz", gz.substr(0, gz.size() - 1), "ends too early");
  check("a.zst", zst.substr(0, zst.size() - 1), "ends too early");
  check("a.gz", gz + "junk", "header");
  check("a.zst", zst + "junk", "frame");
  check("a.gz", "text", "header");
  check("a.zst", "text", "frame");
}

TEST_CASE("the ending of a compression is taken off a name") {
  CHECK(without_compression("a.jsonl.gz") == "a.jsonl");
  CHECK(without_compression("a.zst") == "a");
  CHECK(without_compression("a.txt") == "a.txt");
}
