#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hgtrain/data/tokenizer.h"

#include "byte_source.h"
#include "source_files.h"

namespace hgt {

/// Text of one file: a document, a piece of one, or whole lines of JSON.
struct TextPart {
  const SourceFile* file = nullptr;
  std::string text;
  std::int64_t first_line = 1;  ///< of JSON lines
  bool ends_document = true;    ///< false: the next part goes on with it
};

/// What one task encodes: about kUnitBytes of text, more where a document or a line is longer.
using TextUnit = std::vector<TextPart>;
inline constexpr std::size_t kUnitBytes = std::size_t{1} << 20;

/// Reads files one after the other and cuts them into units, in order. A document is cut only where
/// the tokenizer says that no token changes by it.
class TextUnits {
 public:
  TextUnits(const std::vector<SourceFile>& files, const Tokenizer& tokenizer)
      : files_(files), tokenizer_(tokenizer) {}

  /// The next unit; empty at the end.
  TextUnit next();
  std::int64_t bytes_taken() const;  ///< from the disk
  std::int64_t text_bytes() const { return text_bytes_; }
  std::int64_t binary_files() const { return binary_files_; }

 private:
  bool open_next();
  TextPart next_part();
  std::size_t fill(std::size_t bytes);
  std::size_t cut() const;

  const std::vector<SourceFile>& files_;
  const Tokenizer& tokenizer_;
  std::size_t next_file_ = 0;
  std::unique_ptr<ByteSource> source_;  ///< of files_[next_file_ - 1]; null between files
  std::string pending_;                 ///< read and not yet given out
  bool at_end_ = false;                 ///< source_ has no more than pending_
  std::int64_t line_ = 1;
  std::int64_t bytes_before_ = 0;  ///< of finished files
  std::int64_t text_bytes_ = 0;
  std::int64_t binary_files_ = 0;
};

}  // namespace hgt
