#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hgtrain/config/config.h"

namespace hgt {

/// PREFIX.json beside the PREFIX.bin and PREFIX.idx that `hgtrain data prepare` made, written last:
/// where it exists, the rest is whole. PREFIX.tokenizer/ holds the tokenizer.
struct Manifest {
  static constexpr std::int64_t kFormatVersion = 1;
  std::string tokenizer;  ///< Tokenizer::kind(): "byte", "bpe"
  std::int64_t vocab_size = 0;
  std::int64_t end_of_text = 0;  ///< id between documents
  std::int64_t max_token = 0;    ///< largest id in the file
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::string dtype;              ///< "uint16", "int32"
  std::uint64_t bin_hash = 0;     ///< XXH3 of PREFIX.bin
  std::uint64_t idx_hash = 0;     ///< XXH3 of PREFIX.idx
  std::int64_t source_bytes = 0;  ///< of text, decompressed
  std::int64_t source_files = 0;
};

std::string to_text(const Manifest& manifest);

/// The manifest of the data that `path` names (prefix, .bin or .idx), nullopt where it has none.
/// Error(kData) where it is damaged or of a later version.
std::optional<Manifest> read_manifest(const std::string& path);

/// What the data's manifests say about its tokens.
struct Vocabulary {
  std::int64_t size = 0;  ///< 0: no source has a manifest
  std::int64_t end_of_text = -1;
  std::string tokenizer_folder;  ///< for Tokenizer::from_folder; "" without manifest
};

/// Of all sources of a config. Error(kConfig) where two were made with different tokenizers.
Vocabulary vocabulary_of(const DataConfig& config);

}  // namespace hgt
