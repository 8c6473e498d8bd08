#include "hgtrain/data/manifest.h"

#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/config/data_config.h"
#include "hgtrain/data/token_file.h"
#include "hgtrain/data/tokenizer.h"

#include "content_hash.h"

namespace hgt {

namespace {

constexpr std::string_view kFormat = "hgtrain tokens";
constexpr std::int64_t kMaxManifestBytes = 1 << 20;
constexpr const char* kSeal = "manifest_xxh3";

std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::uint64_t parse_hash(const std::string& text) {
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument("a hash is not 16 hex digits: " + text);
  return hash;
}

/// The value of the manifest's last key: the hash of the text without that key.
std::string seal_of(const nlohmann::ordered_json& unsealed) {
  return hex(xxh3(unsealed.dump()));
}

std::uint64_t hash_at(const nlohmann::ordered_json& json, const char* key) {
  return parse_hash(json.at(key).get<std::string>());
}

Manifest parse(const nlohmann::ordered_json& json) {
  Manifest m;
  m.format_version = json_integer(json.at("format_version"));
  json.at("tokenizer").get_to(m.tokenizer);
  m.vocab_size = json_integer(json.at("vocab_size"));
  m.end_of_text = json_integer(json.at("end_of_text"));
  m.max_token = json_integer(json.at("max_token"));
  m.tokens = json_integer(json.at("tokens"));
  m.documents = json_integer(json.at("documents"));
  json.at("dtype").get_to(m.dtype);
  m.bin_hash = hash_at(json, "bin_xxh3");
  m.idx_hash = hash_at(json, "idx_xxh3");
  m.source_bytes = json_integer(json.at("source_bytes"));
  m.source_files = json_integer(json.at("source_files"));
  if (m.format_version == 1) return m;
  m.begin_of_text = json_integer(json.at("begin_of_text"));
  m.bin_sample = hash_at(json, "bin_sample_xxh3");
  for (const auto& [name, hash] : json.at("tokenizer_files").items())
    m.tokenizer_files[name] = parse_hash(hash.get<std::string>());
  auto unsealed = json;
  unsealed.erase(kSeal);
  if (json.at(kSeal) != seal_of(unsealed))
    throw std::invalid_argument("it was changed after it was written");
  return m;
}

/// Throws "PREFIX.bin is not what was prepared", with a hint about what to do.
[[noreturn]] void throw_changed(const std::string& path, const std::string& how) {
  throw Error(ErrorKind::kData, fmt::format("{} is not what was prepared: {}", path, how),
              "prepare the data again, or copy the file again");
}

}  // namespace

std::string to_text(const Manifest& m) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"format_version", m.format_version},
                                 {"tokenizer", m.tokenizer},
                                 {"vocab_size", m.vocab_size},
                                 {"end_of_text", m.end_of_text},
                                 {"max_token", m.max_token},
                                 {"tokens", m.tokens},
                                 {"documents", m.documents},
                                 {"dtype", m.dtype},
                                 {"bin_xxh3", hex(m.bin_hash)},
                                 {"idx_xxh3", hex(m.idx_hash)},
                                 {"source_bytes", m.source_bytes},
                                 {"source_files", m.source_files}};
  if (m.format_version > 1) {
    json["begin_of_text"] = m.begin_of_text;
    json["bin_sample_xxh3"] = hex(m.bin_sample);
    auto& files = json["tokenizer_files"] = nlohmann::ordered_json::object();
    for (const auto& [name, hash] : m.tokenizer_files) files[name] = hex(hash);
    json[kSeal] = seal_of(json);
  }
  return json.dump(2) + "\n";
}

bool is_manifest(const std::string& file) {
  return !is_folder(file) && File::open(file, O_RDONLY).size() <= kMaxManifestBytes &&
         read_file(file, kMaxManifestBytes).find(fmt::format("\"{}\"", kFormat)) !=
             std::string::npos;
}

std::optional<Manifest> read_manifest(const std::string& path) {
  const std::string prefix = megatron_prefix(path);
  const std::string file = prefix + ".json";
  if (prefix.empty() || !path_exists(file)) return std::nullopt;
  try {
    const auto json = parse_json<nlohmann::ordered_json>(read_file(file, kMaxManifestBytes));
    if (!json.is_object() || json.value("format", "") != kFormat) return std::nullopt;
    if (const auto version = json_integer(json.at("format_version"));
        version < 1 || version > Manifest::kFormatVersion)
      throw Error(ErrorKind::kData,
                  fmt::format("{} has format_version {}; this hgtrain knows 1 to {}", file, version,
                              Manifest::kFormatVersion));
    return parse(json);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: {}", file, e.what()),
                "prepare the data again");
  }
}

void check_prepared(const Manifest& manifest, const std::string& prefix) {
  if (manifest.format_version == 1) return;
  const TokenFile tokens = TokenFile::open(prefix);
  if (tokens.fingerprint() != manifest.bin_sample)
    throw_changed(tokens.path(), "its sampled XXH3 hash is not the manifest's");
  for (const auto& [name, hash] : manifest.tokenizer_files) {
    const std::string path = fmt::format("{}.tokenizer/{}", prefix, name);
    if (!path_exists(path))
      throw Error(
          ErrorKind::kConfig,
          fmt::format("there is no {}, which belongs to the data {}", path, prefix),
          fmt::format("copy {}.tokenizer from where the data were prepared, or prepare them "
                      "again",
                      prefix));
    if (hash_file(path) != hash) throw_changed(path, "its XXH3 hash is not the manifest's");
  }
}

Vocabulary vocabulary_of(const DataConfig& config) {
  Vocabulary vocabulary;
  std::string first;
  const auto add = [&](const DataSource& source) {
    const auto manifest = read_manifest(source.path);
    if (!manifest) return;
    const std::string prefix = megatron_prefix(source.path);
    check_prepared(*manifest, prefix);
    const bool is_sealed = manifest->format_version > 1;
    if (first.empty()) {
      first = source.path;
      vocabulary = {manifest->vocab_size, manifest->end_of_text, manifest->begin_of_text, is_sealed,
                    prefix + ".tokenizer"};
      return;
    }
    vocabulary.is_sealed = vocabulary.is_sealed && is_sealed;
    if (manifest->vocab_size != vocabulary.size || manifest->end_of_text != vocabulary.end_of_text)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("{} and {} were made with different tokenizers: vocab_size {} and {}, "
                      "end of text {} and {}",
                      first, source.path, vocabulary.size, manifest->vocab_size,
                      vocabulary.end_of_text, manifest->end_of_text),
          "prepare both with the same --tokenizer");
    const std::string folder = prefix + ".tokenizer";
    if (path_exists(folder) && path_exists(vocabulary.tokenizer_folder) &&
        !is_same_tokenizer(folder, vocabulary.tokenizer_folder))
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} and {} were made with different tokenizers of one size", first,
                              source.path),
                  "prepare both with the same --tokenizer");
  };
  for (const DataSource& source : config.train) add(source);
  for (const DataSource& source : config.valid) add(source);
  return vocabulary;
}

}  // namespace hgt
