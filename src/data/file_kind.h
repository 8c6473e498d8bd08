#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// What the name of a file says it holds; .gz and .zst at its end say nothing.
struct FileKind {
  bool json_lines = false;      ///< .jsonl, .ndjson, .json
  std::string_view other = {};  ///< "a table" or the like, from which text cannot be read; else ""
  std::string hint = {};        ///< how to convert it to text
};

FileKind kind_of_name(const std::string& path);

}  // namespace hgt
