#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/data/tokenizer.h"

#include "text_units.h"

namespace hgt {

/// The tokens of a unit's documents.
struct EncodedUnit {
  std::vector<std::int32_t> tokens;  ///< end-of-text after each document included
  std::vector<std::size_t> ends;     ///< where in `tokens` documents end; the rest goes on
  std::int64_t empty_documents = 0;  ///< left out
};

/// Error(kData) names file and line of a line that is not as it should be.
EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer, std::int32_t end_of_text,
                        const std::string& json_field);

}  // namespace hgt
