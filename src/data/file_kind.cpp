#include "file_kind.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hgtrain/base/text.h"

#include "byte_source.h"

namespace hgt {

namespace {

constexpr auto kJsonLines = std::to_array<std::string_view>({".jsonl", ".ndjson", ".json"});
constexpr auto kTables = std::to_array<std::string_view>(
    {".csv", ".tsv", ".parquet", ".arrow", ".feather", ".orc", ".avro", ".xls", ".xlsx", ".ods"});
constexpr auto kDocuments = std::to_array<std::string_view>(
    {".pdf", ".doc", ".docx", ".odt", ".epub", ".mobi", ".ppt", ".pptx", ".ps", ".djvu"});
constexpr auto kArchives = std::to_array<std::string_view>(
    {".zip", ".tar", ".tgz", ".7z", ".rar", ".xz", ".bz2", ".lz4", ".lzma", ".br"});
constexpr auto kBinaries = std::to_array<std::string_view>(
    {".png",  ".jpg", ".jpeg", ".gif",   ".webp",   ".bmp",      ".tif", ".tiff", ".ico",
     ".mp3",  ".mp4", ".wav",  ".flac",  ".ogg",    ".avi",      ".mkv", ".mov",  ".webm",
     ".bin",  ".idx", ".npy",  ".npz",   ".pt",     ".pth",      ".pkl", ".gguf", ".safetensors",
     ".onnx", ".h5",  ".hdf5", ".db",    ".sqlite", ".tfrecord", ".so",  ".o",    ".a",
     ".exe",  ".dll", ".pyc",  ".class", ".jar",    ".partial"});

/// pandas' way from a table to lines of JSON.
std::string table_hint(const std::string& path, std::string_view extension) {
  const std::string_view format = extension == ".tsv" ? "csv" : extension.substr(1);
  return fmt::format(
      "write its rows as lines of JSON: python3 -c 'import pandas as p; p.read_{}(\"{}\"{})"
      ".to_json(\"{}.jsonl\", orient=\"records\", lines=True)'",
      format, path, extension == ".tsv" ? ", sep=\"\\t\"" : "", path.substr(0, path.rfind('.')));
}

}  // namespace

FileKind kind_of_name(const std::string& path) {
  const std::string name = lower(without_compression(path));
  const std::size_t dot = name.rfind('.');
  const std::string_view extension =
      dot == std::string::npos ? "" : std::string_view(name).substr(dot);
  const auto is_among = [&](const auto& list) {
    return std::ranges::find(list, extension) != list.end();
  };
  if (is_among(kJsonLines)) return {.json_lines = true};
  if (is_among(kTables)) return {false, "a table", table_hint(path, extension)};
  if (is_among(kDocuments))
    return {false, "a document", "write its text to a file first, with pdftotext or pandoc"};
  if (is_among(kArchives))
    return {false, "an archive", "unpack it first; only .gz and .zst are read as they are"};
  if (is_among(kBinaries)) return {false, "binary", "name text, .jsonl, or these as .gz or .zst"};
  return {};
}

}  // namespace hgt
