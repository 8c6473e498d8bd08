#pragma once

#include <cstdint>

namespace hgt {

/// Which ids of a vocabulary a rank has rows or columns for: those from `first` on. What it has
/// beyond the end of the vocabulary is padding, which no id names.
struct VocabularyPart {
  std::int64_t first = 0;
  std::int64_t size = 0;  ///< of the whole vocabulary
};

}  // namespace hgt
