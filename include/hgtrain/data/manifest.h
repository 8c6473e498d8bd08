#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hgt {

struct DataConfig;

/// PREFIX.json, which `hgtrain data prepare` writes last, after PREFIX.bin, PREFIX.idx and the
/// folder of the tokenizer, PREFIX.tokenizer/. If it exists, those are complete.
///
/// Its last key is the hash of the other keys, so that a change is noticed. Version 1 had no hash,
/// begin_of_text, bin_sample or tokenizer_files.
struct Manifest {
  static constexpr std::int64_t kFormatVersion = 2;
  std::int64_t format_version = kFormatVersion;
  std::string tokenizer;  ///< Tokenizer::kind(): "byte", "bpe"
  std::int64_t vocab_size = 0;
  std::int64_t end_of_text = 0;     ///< id between documents
  std::int64_t begin_of_text = -1;  ///< id at the beginning of each document; -1: none
  std::int64_t max_token = 0;       ///< largest id in the file
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::string dtype;                                     ///< "uint16", "int32"
  std::uint64_t bin_hash = 0;                            ///< XXH3 of PREFIX.bin
  std::uint64_t idx_hash = 0;                            ///< XXH3 of PREFIX.idx
  std::uint64_t bin_sample = 0;                          ///< TokenFile::fingerprint
  std::map<std::string, std::uint64_t> tokenizer_files;  ///< XXH3 by name in PREFIX.tokenizer/
  std::int64_t source_bytes = 0;                         ///< of text, decompressed
  std::int64_t source_files = 0;
};

std::string to_text(const Manifest& manifest);

/// The manifest of the data that `path` names (prefix, .bin or .idx); nullopt if it has none.
/// Throws Error(kData) if the manifest is damaged or of a later version.
std::optional<Manifest> read_manifest(const std::string& path);

/// Whether the file is a manifest, damaged or not, rather than somebody's JSON of another kind.
bool is_manifest(const std::string& file);

/// Checks that the data at `prefix` is the data that the manifest was written for, without reading
/// all of it. Error(kData) names a file that was replaced or truncated, or that was changed in a
/// part that TokenFile::fingerprint reads. With a manifest of version 1 nothing can be checked.
void check_prepared(const Manifest& manifest, const std::string& prefix);

/// What the data's manifests say about its tokens.
struct Vocabulary {
  std::int64_t size = 0;  ///< 0: no source has a manifest
  std::int64_t end_of_text = -1;
  std::int64_t begin_of_text = -1;
  bool is_sealed = false;        ///< every manifest has version 2, and its data was checked
  std::string tokenizer_folder;  ///< for Tokenizer::from_folder; "" without manifest
};

/// The vocabulary of all sources of a config, each of which is checked (check_prepared). Throws
/// Error(kConfig) if two sources were made with different tokenizers.
Vocabulary vocabulary_of(const DataConfig& config);

}  // namespace hgt
