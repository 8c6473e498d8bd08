#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/data/manifest.h"
#include "hgtrain/data/token_file.h"

namespace hgt {

struct InspectOptions {
  std::string path;                  ///< as TokenFile::open
  std::string token_dtype = "auto";  ///< of a bare file
  std::string tokenizer = "";        ///< as Tokenizer::open, to decode; "": the data's own
  std::int64_t show = 32;            ///< how many tokens from the start to show
  bool verify = false;               ///< read everything, compare with the manifest
};

/// The format and the contents of a token file.
struct TokenReport {
  std::string path;  ///< of the tokens
  TokenFile::Format format = TokenFile::Format::kBare;
  TokenType type = TokenType::kUint16;
  std::int64_t tokens = 0;
  std::int64_t documents = -1;  ///< -1: the format has none
  std::int64_t max_token = -1;  ///< largest id; -1 of an empty file
  std::optional<Manifest> manifest;
  std::vector<std::int32_t> first;
  std::optional<std::string>
      first_text;  ///< `first` decoded, if a tokenizer is known; may be any bytes
};

/// Opens and checks the file as training would. If there is no manifest, or with `verify`, all
/// tokens are read to find the largest id. Throws Error(kData) that names what is damaged, for
/// example a file whose hash is not the manifest's; Error(kConfig) if `verify` is set and there is
/// no manifest.
TokenReport inspect(const InspectOptions& options);

}  // namespace hgt
