#include "hgtrain/data/manifest.h"

#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json_integer.h"
#include "hgtrain/data/token_file.h"

namespace hgt {

namespace {

constexpr std::string_view kFormat = "hgtrain tokens";
constexpr std::int64_t kMaxBytes = 1 << 20;

std::uint64_t parse_hash(const std::string& text) {
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument("a hash is not 16 hex digits: " + text);
  return hash;
}

Manifest parse(const nlohmann::json& json) {
  Manifest m;
  json.at("tokenizer").get_to(m.tokenizer);
  m.vocab_size = json_integer(json.at("vocab_size"));
  m.end_of_text = json_integer(json.at("end_of_text"));
  m.max_token = json_integer(json.at("max_token"));
  m.tokens = json_integer(json.at("tokens"));
  m.documents = json_integer(json.at("documents"));
  json.at("dtype").get_to(m.dtype);
  m.bin_hash = parse_hash(json.at("bin_xxh3").get<std::string>());
  m.idx_hash = parse_hash(json.at("idx_xxh3").get<std::string>());
  m.source_bytes = json_integer(json.at("source_bytes"));
  m.source_files = json_integer(json.at("source_files"));
  return m;
}

}  // namespace

std::string to_text(const Manifest& m) {
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"format_version", Manifest::kFormatVersion},
                                       {"tokenizer", m.tokenizer},
                                       {"vocab_size", m.vocab_size},
                                       {"end_of_text", m.end_of_text},
                                       {"max_token", m.max_token},
                                       {"tokens", m.tokens},
                                       {"documents", m.documents},
                                       {"dtype", m.dtype},
                                       {"bin_xxh3", fmt::format("{:016x}", m.bin_hash)},
                                       {"idx_xxh3", fmt::format("{:016x}", m.idx_hash)},
                                       {"source_bytes", m.source_bytes},
                                       {"source_files", m.source_files}};
  return json.dump(2) + "\n";
}

std::optional<Manifest> read_manifest(const std::string& path) {
  const std::string prefix = megatron_prefix(path);
  const std::string file = prefix + ".json";
  if (prefix.empty() || !path_exists(file)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_file(file, kMaxBytes));
    if (!json.is_object() || json.value("format", "") != kFormat) return std::nullopt;
    if (const auto version = json_integer(json.at("format_version"));
        version != Manifest::kFormatVersion)
      throw Error(ErrorKind::kData, fmt::format("{} has format_version {}; this hgtrain knows {}",
                                                file, version, Manifest::kFormatVersion));
    return parse(json);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: {}", file, e.what()),
                "prepare the data again");
  }
}

Vocabulary vocabulary_of(const DataConfig& config) {
  Vocabulary vocabulary;
  std::string first;
  const auto add = [&](const DataSource& source) {
    const auto manifest = read_manifest(source.path);
    if (!manifest) return;
    if (first.empty()) {
      first = source.path;
      vocabulary = {manifest->vocab_size, manifest->end_of_text,
                    megatron_prefix(source.path) + ".tokenizer"};
    } else if (manifest->vocab_size != vocabulary.size ||
               manifest->end_of_text != vocabulary.end_of_text) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("{} and {} were made with different tokenizers: vocab_size {} and {}, "
                      "end of text {} and {}",
                      first, source.path, vocabulary.size, manifest->vocab_size,
                      vocabulary.end_of_text, manifest->end_of_text),
          "prepare both with the same --tokenizer");
    }
  };
  for (const DataSource& source : config.train) add(source);
  for (const DataSource& source : config.valid) add(source);
  return vocabulary;
}

}  // namespace hgt
