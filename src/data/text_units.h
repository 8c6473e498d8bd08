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
  bool ends_document = true;    ///< false: the next part continues it
  bool starts_document = true;  ///< false: it continues the part before
};

/// What one task encodes: about kChunkBytes of text, more if a document or a line is longer.
using TextUnit = std::vector<TextPart>;
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
/// The longest line of JSON, and the longest text without a place to cut it. They bound the memory
/// that is needed.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxUncutBytes = std::size_t{256} << 20;

/// Lines that were skipped, and what is wrong with the first of them.
struct BadLines {
  std::int64_t count = 0;
  std::string first;
  void add(const BadLines& later);
};

/// Reads files one after the other and cuts them into units, in order. A document is cut only at
/// places where the tokenizer says that this changes no token.
class TextUnits {
 public:
  TextUnits(const std::vector<SourceFile>& files, const Tokenizer& tokenizer,
            bool skip_bad_lines = false)
      : files_(files), tokenizer_(tokenizer), skip_bad_lines_(skip_bad_lines) {}

  /// The next unit; empty at the end. After a skipped line it may be a unit without text, so that
  /// the caller can stop in between. Error(kData) names the file (and line) with something that is
  /// not text: binary data, a JSON array, a line or piece that is too long.
  TextUnit next();
  std::int64_t bytes_taken() const;  ///< from the disk
  std::int64_t text_bytes() const { return text_bytes_; }
  const std::vector<std::string>& binary_files() const { return binary_files_; }
  const std::vector<std::string>& json_files() const { return json_files_; }
  const BadLines& bad_lines() const { return bad_lines_; }

 private:
  bool open_next();
  bool passes_over(const SourceFile& file);
  TextPart next_part();
  bool grow();
  [[noreturn]] void throw_too_long(std::size_t limit) const;
  void drop_piece();
  std::size_t fill(std::size_t bytes);
  std::size_t cut() const;

  const std::vector<SourceFile>& files_;
  const Tokenizer& tokenizer_;
  const bool skip_bad_lines_;
  std::size_t next_file_ = 0;
  std::unique_ptr<ByteSource> source_;  ///< of files_[next_file_ - 1]; null between files
  std::string pending_;                 ///< read and not yet returned
  bool at_end_ = false;                 ///< source_ has been read to its end
  bool in_document_ = false;            ///< a part of the current document was returned
  bool in_dropped_line_ = false;        ///< the end of a dropped line was not read yet
  std::int64_t line_ = 1;
  std::int64_t bytes_before_ = 0;  ///< of finished files
  std::int64_t text_bytes_ = 0;
  std::vector<std::string> binary_files_;
  std::vector<std::string> json_files_;  ///< skipped: JSON, but not line by line
  BadLines bad_lines_;
};

}  // namespace hgt
