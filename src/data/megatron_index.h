#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hgtrain/data/token_file.h"

namespace hgt {

/// What a Megatron .idx says about its .bin.
struct MegatronIndex {
  TokenType type = TokenType::kUint16;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
};

/// Reads an .idx (layout: token_file.h) from end to end in bounded memory. Error(kData) with the
/// byte offset of the first thing that is not as Megatron writes it; sequences must follow each
/// other in the .bin without holes, from byte 0.
MegatronIndex read_megatron_index(const std::string& path);

/// The longest sequence an .idx can hold. A document is written as sequences of this length and a
/// last one that is shorter (0 if need be), which ends it.
inline constexpr std::int64_t kMaxSequenceTokens = 0x7fffffff;

/// Writes an .idx for sequences of these lengths, in which each shorter than kMaxSequenceTokens
/// ends a document. Returns the XXH3 hash of what was written.
std::uint64_t write_megatron_index(File& file, TokenType type,
                                   std::span<const std::int32_t> lengths);

}  // namespace hgt
