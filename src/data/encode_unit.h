#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/data/tokenizer.h"

#include "text_units.h"

namespace hgt {

/// How documents become tokens.
struct EncodeOptions {
  std::int32_t end_of_text = -1;
  std::string json_field = "text";
  bool skip_bad_lines = false;
  const std::atomic<bool>* stop = nullptr;  ///< encoding may stop once it is true
};

/// The tokens of a unit's documents.
struct EncodedUnit {
  std::vector<std::int32_t> tokens;  ///< end-of-text after each document included
  std::vector<std::size_t> ends;     ///< where in `tokens` documents end; the rest is unfinished
  std::int64_t empty_documents = 0;  ///< left out
  BadLines bad_lines;                ///< left out, if options.skip_bad_lines
};

/// A document becomes what the tokenizer makes of it with special tokens (a BOS), and end-of-text
/// unless it ends with that. Error(kData) names file and line of a bad line.
EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer,
                        const EncodeOptions& options);

}  // namespace hgt
