#include "encode_unit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

#include "unicode.h"

namespace hgt {

namespace {

std::string field_names(const nlohmann::json& object) {
  std::string names;
  for (const auto& [name, value] : object.items())
    if (value.is_string() && names.size() < 200) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// The text in one line of JSON. Throws Error without the place.
std::string text_of_line(std::string_view line, const std::string& field) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(line);
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(ErrorKind::kData, fmt::format("this is no JSON, from its byte {} on", e.byte));
  } catch (const nlohmann::json::out_of_range&) {
    throw Error(ErrorKind::kData, "this is no JSON that can be read: a number in it is too large");
  }
  if (!json.is_object()) throw Error(ErrorKind::kData, "the line is no JSON object");
  const auto found = json.find(field);
  if (found != json.end() && found->is_string()) return std::move(found->get_ref<std::string&>());
  const std::string names = field_names(json);
  throw Error(ErrorKind::kData, fmt::format("the line has no text in a field \"{}\"", field),
              names.empty() ? "" : "name another with --json_field; there is text in: " + names);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, std::int32_t end_of_text)
      : tokenizer_(tokenizer), end_of_text_(end_of_text) {}

  void add(std::string_view text, bool ends_document) {
    if (text.empty() && ends_document) {
      ++out.empty_documents;
      return;
    }
    const auto ids = tokenizer_.encode(text);
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
    if (!ends_document) return;
    out.tokens.push_back(end_of_text_);
    out.ends.push_back(out.tokens.size());
  }

  void add_lines(const TextPart& part, const std::string& field) {
    const std::string valid = replace_invalid_utf8(part.text);  // JSON is UTF-8
    std::int64_t number = part.first_line;
    for (std::size_t at = 0; at < valid.size(); ++number) {
      const std::size_t end = std::min(valid.find('\n', at), valid.size());
      const std::string_view line = std::string_view(valid).substr(at, end - at);
      at = end + 1;
      if (is_blank(line)) continue;
      try {
        add(text_of_line(line, field), true);
      } catch (Error& e) {
        e.in(fmt::format("{}:{}", part.file->path, number));
        throw;
      }
    }
  }

  EncodedUnit out;

 private:
  const Tokenizer& tokenizer_;
  std::int32_t end_of_text_;
};

}  // namespace

EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer, std::int32_t end_of_text,
                        const std::string& json_field) {
  Encoder encoder(tokenizer, end_of_text);
  for (const TextPart& part : unit) {
    if (part.file->json_lines)
      encoder.add_lines(part, json_field);
    else
      encoder.add(part.text, part.ends_document);
  }
  return std::move(encoder.out);
}

}  // namespace hgt
