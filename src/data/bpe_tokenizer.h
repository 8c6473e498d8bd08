#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hgtrain/data/tokenizer.h"

#include "added_tokens.h"
#include "bpe.h"
#include "decoder.h"
#include "normalizer.h"
#include "pre_tokenizer.h"

namespace hgt {

/// A tokenizer.json taken apart.
struct TokenizerParts {
  AddedTokens added;             ///< found in the text as it is
  AddedTokens normalized_added;  ///< found in normalized text
  Normalizer normalize;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<std::string> bytes;  ///< of each id, by the decoder; "" for ids that are not used
  Decoder decoder;
  std::vector<std::int32_t> before, after;                  ///< special tokens around a text
  std::vector<std::pair<std::string, std::int32_t>> names;  ///< of added tokens
  bool cuts_at_white_space = false;                         ///< Tokenizer::safe_cut knows a place
};

/// Error(kData) names what is damaged or not supported.
TokenizerParts parse_tokenizer_json(const std::string& text);

/// A hash of what decides the ids; two files that differ in layout alone have the same.
std::uint64_t tokenizer_identity(const std::string& text);

/// `end_of_text` is the name of that token, "" if it is not known; `files` (name, content) are what
/// save() writes.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(
    TokenizerParts parts, const std::string& end_of_text,
    std::vector<std::pair<std::string, std::string>> files);

}  // namespace hgt
