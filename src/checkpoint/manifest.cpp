#include "manifest.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/xxh3.h"

#include "training_state.h"

namespace hgt {

namespace {

using nlohmann::json;

constexpr const char* kFormat = "hgtrain checkpoint";
constexpr int kVersion = 2;
constexpr std::int64_t kMaxManifestBytes = 256 << 20;
constexpr std::int64_t kMaxSmallFileBytes = 256 << 20;

/// The sizes in "layout"; earlier versions wrote the first three.
constexpr std::pair<const char*, std::int64_t ParallelismConfig::*> kLayoutSizes[] = {
    {"data_parallel_size", &ParallelismConfig::data_parallel_size},
    {"tensor_parallel_size", &ParallelismConfig::tensor_parallel_size},
    {"pipeline_parallel_size", &ParallelismConfig::pipeline_parallel_size},
    {"context_parallel_size", &ParallelismConfig::context_parallel_size},
    {"virtual_pipeline_stages", &ParallelismConfig::virtual_pipeline_stages},
};

/// The whole text as a number.
std::optional<std::uint64_t> parse_number(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::uint64_t parse_hash(std::string_view text) {
  const auto hash = parse_number(text, 16);
  if (text.size() != 16 || !hash)
    throw Error(ErrorKind::kData, "the manifest is damaged: a hash does not have 16 hex digits");
  return *hash;
}

/// "HASH BEGIN HASH BEGIN HASH": the hash of each range and, before all but the first, its begin.
std::string ranges_text(const std::vector<HashedRange>& ranges) {
  std::string text;
  for (const HashedRange& range : ranges) {
    if (!text.empty()) text += fmt::format(" {} ", range.begin);
    text += hash_text(range.hash);
  }
  return text;
}

std::vector<HashedRange> parse_ranges(std::string_view text) {
  const auto word = [&] {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view found = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return found;
  };
  std::vector<HashedRange> ranges{{0, parse_hash(word())}};
  while (!text.empty()) {
    const auto begin = parse_number(word(), 10);
    if (!begin || *begin > std::numeric_limits<std::int64_t>::max() ||
        static_cast<std::int64_t>(*begin) <= ranges.back().begin)
      throw Error(ErrorKind::kData, "the manifest is damaged: blocks are not in order");
    ranges.push_back({static_cast<std::int64_t>(*begin), parse_hash(word())});
  }
  return ranges;
}

/// "a" and "a/b", but neither "../a" nor "/a".
bool is_below(const std::string& name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (end == begin || name[begin] == '.') return false;
    begin = end + 1;
  }
  return true;
}

ManifestFile parse_file(const json& entry) {
  ManifestFile file;
  file.bytes = json_integer(entry.at("bytes"));
  file.hash = parse_hash(
      entry.at(entry.contains("tensors") ? "header_xxh3" : "xxh3").get_ref<const std::string&>());
  if (entry.contains("tensors"))
    for (const auto& [name, ranges] : entry["tensors"].items())
      file.tensors[name] = parse_ranges(ranges.get_ref<const std::string&>());
  return file;
}

CheckpointManifest from_json(const json& json) {
  if (json.at("format") != kFormat)
    throw Error(ErrorKind::kData, "this is not an hgtrain checkpoint");
  if (json.at("version") != kVersion && json["version"] != 1)
    throw Error(
        ErrorKind::kData,
        fmt::format("the checkpoint has format version {}, this program reads versions 1 and {}",
                    json["version"].dump(), kVersion),
        "use the version of hgtrain that wrote it");
  CheckpointManifest manifest;
  manifest.step = json_integer(json.at("step"));
  manifest.only_best = json.value("only_best", false);
  const auto& layout = json.at("layout");
  for (const auto& [name, size] : kLayoutSizes)
    if (layout.contains(name)) manifest.layout.*size = json_integer(layout[name]);
  for (const auto& [name, entry] : json.at("files").items()) {
    if (!is_below(name))
      throw Error(ErrorKind::kData, "the manifest lists a file outside its folder");
    manifest.files[name] = parse_file(entry);
  }
  return manifest;
}

/// Whether the file is one of the tensors of `stem`, or is needed with them.
bool belongs_to(std::string_view stem, const std::string& name) {
  const bool has_tensors = name.find(".safetensors") != std::string::npos;
  if (stem.empty() || !has_tensors) return stem.empty() || name != kTrainingStateName;
  return name.starts_with(stem) && (name[stem.size()] == '.' || name[stem.size()] == '-');
}

}  // namespace

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::string manifest_seal(std::string_view body) {
  return fmt::format(",\n \"manifest_xxh3\": \"{}\"\n}}\n", hash_text(xxh3(body)));
}

std::string manifest_text(const CheckpointManifest& manifest) {
  nlohmann::ordered_json out{{"format", kFormat}, {"version", kVersion}, {"step", manifest.step}};
  if (manifest.only_best) out["only_best"] = true;
  for (const auto& [name, size] : kLayoutSizes) out["layout"][name] = manifest.layout.*size;
  for (const auto& [name, file] : manifest.files) {
    auto& entry = out["files"][name] = {{"bytes", file.bytes}};
    entry[file.tensors.empty() ? "xxh3" : "header_xxh3"] = hash_text(file.hash);
    for (const auto& [tensor, ranges] : file.tensors)
      entry["tensors"][tensor] = ranges_text(ranges);
  }
  std::string body = out.dump(1);
  body.resize(body.size() - 2);  // "\n}", which the seal brings
  return body + manifest_seal(body);
}

CheckpointManifest parse_manifest(std::string_view text) {
  const std::size_t seal_bytes = manifest_seal("").size();
  const std::string_view body = text.substr(0, text.size() - std::min(text.size(), seal_bytes));
  if (text.substr(body.size()) != manifest_seal(body))
    throw Error(ErrorKind::kData, "the manifest is damaged: it does not end in its own hash");
  try {
    return from_json(parse_json<json>(text));
  } catch (const json::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("the manifest is damaged: {}", e.what()));
  }
}

CheckpointManifest read_manifest_file(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  try {
    return parse_manifest(read_file(path, kMaxManifestBytes));
  } catch (Error& e) {
    e.in(path);
    throw;
  }
}

CheckpointManifest read_manifest(const std::string& folder, std::string_view stem) {
  CheckpointManifest manifest = read_manifest_file(folder);
  for (const auto& [name, expected] : manifest.files) {
    if (!belongs_to(stem, name)) continue;
    const std::string file_path = folder + "/" + name;
    const std::int64_t bytes = File::open(file_path, O_RDONLY).size();
    if (bytes != expected.bytes)
      throw Error(ErrorKind::kData, fmt::format("{} is damaged: it has {} bytes, {} were written",
                                                file_path, bytes, expected.bytes));
    if (expected.tensors.empty() && xxh3(read_file(file_path, kMaxSmallFileBytes)) != expected.hash)
      throw Error(
          ErrorKind::kData,
          fmt::format("{} is damaged: its bytes do not have the manifest's hash", file_path));
  }
  return manifest;
}

void write_listed_file(CheckpointManifest& manifest, const std::string& folder,
                       const std::string& name, std::string_view text) {
  write_new_file(folder + "/" + name, text);
  manifest.files[name] = {static_cast<std::int64_t>(text.size()), xxh3(text), {}};
}

}  // namespace hgt
