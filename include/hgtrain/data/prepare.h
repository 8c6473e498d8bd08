#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/data/manifest.h"

namespace hgt {

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< files, and folders to be searched
  std::string out;                  ///< prefix of the files to be written
  std::string tokenizer = "byte";   ///< as Tokenizer::open
  std::string end_of_text = "";     ///< token between documents; "": the tokenizer's own
  std::string json_field = "text";  ///< of a line of a .jsonl file
  std::int64_t threads = 0;         ///< 0: all cores
  bool overwrite = false;
};

struct PrepareProgress {
  std::int64_t bytes_read = 0;  ///< of the files as they lie on the disk
  std::int64_t bytes_total = 0;
  std::int64_t tokens = 0;
};

struct PrepareResult {
  Manifest manifest = {};
  std::int64_t hidden_files = 0;     ///< passed over: name starts with a dot
  std::int64_t binary_files = 0;     ///< passed over: a NUL in the first 8 KiB
  std::int64_t empty_documents = 0;  ///< passed over
  bool stopped = false;              ///< `go_on` said so: nothing was written
};

/// Turns text into OUT.bin, OUT.idx, OUT.tokenizer/ and OUT.json.
///
/// A text file is one document, so is a line of a .jsonl or .ndjson file (an object whose
/// `json_field` is the text); each also as .gz or .zst. Folders are searched in byte order of the
/// names, links to folders not followed; hidden and binary files in them are passed over. After
/// each document stands end-of-text. The result depends on inputs and tokenizer alone, not on
/// threads.
///
/// Files are read as streams: memory is a few MiB a thread plus 4 bytes a document, but a document
/// that the tokenizer knows no safe cut in (Tokenizer::safe_cut) is held whole. Nothing appears
/// under the final names until all is on the disk; OUT.json comes last. On an error, or where
/// `go_on`, called after each piece, says false, what was written is removed.
///
/// Error(kConfig): nothing to read, OUT exists without `overwrite`, no end-of-text token.
/// Error(kData): unreadable or damaged input (file:line of a bad JSON line, byte offset in a
/// compressed file), a full disk.
PrepareResult prepare(const PrepareOptions& options,
                      const std::function<bool(const PrepareProgress&)>& go_on);

}  // namespace hgt
