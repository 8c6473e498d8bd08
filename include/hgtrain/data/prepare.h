#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/data/manifest.h"

namespace hgt {

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< files, and folders to search
  std::string out;                  ///< prefix of the files to write
  std::string tokenizer = "byte";   ///< as Tokenizer::open
  std::string end_of_text = "";     ///< token between documents; "": the tokenizer's own
  std::string json_field = "text";  ///< of a line of a .jsonl file
  std::int64_t threads = 0;         ///< 0: all cores
  bool overwrite = false;
  bool skip_bad_lines = false;  ///< count them instead of stopping at the first
};

struct PrepareProgress {
  std::int64_t bytes_read = 0;  ///< of the files on the disk, compressed or not
  std::int64_t bytes_total = 0;
  std::int64_t tokens = 0;
};

struct PrepareResult {
  Manifest manifest = {};
  std::int64_t hidden_files = 0;          ///< skipped: name starts with a dot
  std::vector<std::string> binary_files;  ///< skipped: a NUL in the first 8 KiB
  std::vector<std::string> other_files;   ///< skipped: tables, archives, ...
  std::vector<std::string> json_files;    ///< skipped: JSON, but not line by line
  std::int64_t empty_documents = 0;       ///< skipped
  std::int64_t bad_lines = 0;             ///< skipped, with skip_bad_lines
  std::string first_bad_line;             ///< its position, and what is wrong with it
  bool stopped = false;  ///< `keep_going` returned false, and what was written is removed
};

/// Turns text into OUT.bin, OUT.idx, OUT.tokenizer/ and OUT.json.
///
/// A text file is one document. A line of a .jsonl, .ndjson or .json file is one document too (an
/// object whose `json_field` is the text). All may be compressed as .gz or .zst. Folders are
/// searched in byte order of the names; links to folders are not followed. Files in them that are
/// hidden, binary or of another kind (a table, a JSON array) are skipped; if `inputs` names such a
/// file, it is refused. A document becomes its ids, special tokens (a BOS) included, and then
/// end-of-text. The result depends on inputs and tokenizer alone, not on threads.
///
/// Files are read as streams: memory is a few MiB per thread plus 4 bytes per document. Only a line
/// of JSON (64 MiB at most) and a document without a safe cut (Tokenizer::safe_cut; 256 MiB at
/// most) are held whole. Nothing appears under the final names until everything is on the disk;
/// OUT.json comes last. `keep_going` is called after each piece, and repeatedly while a piece takes
/// long. If it returns false, or on an error, what was written is removed.
///
/// Error(kConfig): nothing to read, OUT exists without `overwrite`, no end-of-text token.
/// Error(kData): unreadable or damaged input (file:line of a bad JSON line, byte offset in a
/// compressed file), a full disk.
PrepareResult prepare(const PrepareOptions& options,
                      const std::function<bool(const PrepareProgress&)>& keep_going);

}  // namespace hgt
