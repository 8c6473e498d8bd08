#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace hgt {

using Json = nlohmann::ordered_json;

/// A key that occurs twice in one object.
struct DuplicateKey {
  std::string pointer;
  int first_line = 0;
  int line = 0;
};

/// A JSON value that remembers the line of each of its parts.
struct Document {
  std::string file;  ///< as the user named it
  Json root;
  std::map<std::string, int>
      lines;  ///< by JSON pointer ("" is the root); a member's line is its key's
  std::vector<DuplicateKey> duplicates;  ///< the first of each pair is the one in `root`
};

/// Reads JSON with comments (`#`, `//`, `/* */`), trailing commas and a byte order mark. Infinity
/// and NaN are read as numbers (a key may refuse them); integers that int64 cannot hold become
/// doubles, and doubles that are too large infinite. Error(kConfig) with FILE:LINE:COLUMN at the
/// first place that is not JSON, nests deeper than 100, or is not UTF-8.
Document read_document(std::string_view text, std::string file);

bool is_utf8(std::string_view text);

/// `pointer` + "/" + `key`, escaped.
std::string pointer_to(const std::string& pointer, std::string_view key);

}  // namespace hgt
