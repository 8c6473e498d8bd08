#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "hgtrain/config/config.h"

namespace hgt {

/// PREFIX.json beside the PREFIX.bin and PREFIX.idx that `hgtrain data prepare` made, written last:
/// where it exists, the rest is whole. PREFIX.tokenizer/ holds the tokenizer.
///
/// Its last key is the hash of the rest, so that a change is noticed. Version 1 had neither that
/// nor begin_of_text, bin_sample and tokenizer_files.
struct Manifest {
  static constexpr std::int64_t kFormatVersion = 2;
  std::int64_t format_version = kFormatVersion;
  std::string tokenizer;  ///< Tokenizer::kind(): "byte", "bpe"
  std::int64_t vocab_size = 0;
  std::int64_t end_of_text = 0;     ///< id between documents
  std::int64_t begin_of_text = -1;  ///< id that documents begin with; -1: none
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

/// The manifest of the data that `path` names (prefix, .bin or .idx), nullopt where it has none.
/// Error(kData) where it is damaged or of a later version.
std::optional<Manifest> read_manifest(const std::string& path);

/// Whether the file is a manifest, damaged or not, rather than somebody's JSON of another kind.
bool is_manifest(const std::string& file);

/// Whether the manifest's data at `prefix` is what was prepared, without reading all of it:
/// Error(kData) names the file that another was put in place of, or that was cut or changed in a
/// part that TokenFile::fingerprint reads. Manifests of version 1 cannot tell.
void check_prepared(const Manifest& manifest, const std::string& prefix);

/// What the data's manifests say about its tokens.
struct Vocabulary {
  std::int64_t size = 0;  ///< 0: no source has a manifest
  std::int64_t end_of_text = -1;
  std::int64_t begin_of_text = -1;
  bool is_sealed = false;  ///< every manifest is of version 2, and what it speaks of was checked
  std::string tokenizer_folder;  ///< for Tokenizer::from_folder; "" without manifest
};

/// Of all sources of a config, each checked (check_prepared). Error(kConfig) if two were made with
/// different tokenizers.
Vocabulary vocabulary_of(const DataConfig& config);

}  // namespace hgt
