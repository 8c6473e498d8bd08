#include "encode_unit.h"

#include <fmt/format.h>

#include "json_text.h"
#include "unicode.h"

namespace hgt {

namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, const EncodeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  void add(std::string_view text, bool starts_document, bool ends_document) {
    if (text.empty() && ends_document) {
      ++out.empty_documents;
      return;
    }
    if (starts_document) append(tokenizer_.ids_before());
    auto ids = tokenizer_.encode(text);
    if (out.tokens.empty())
      out.tokens = std::move(ids);  // a long text is not held twice
    else
      append(ids);
    if (!ends_document) return;
    append(tokenizer_.ids_after());
    if (tokenizer_.ids_after().empty() || out.tokens.back() != options_.end_of_text)
      out.tokens.push_back(options_.end_of_text);
    out.ends.push_back(out.tokens.size());
  }

  void add_lines(const TextPart& part) {
    const bool is_valid = valid_utf8_prefix(part.text) == part.text.size();  // as JSON must be
    const std::string repaired = is_valid ? "" : replace_invalid_utf8(part.text);
    const std::string_view valid = is_valid ? part.text : repaired;
    std::int64_t number = part.first_line;
    for (std::size_t at = 0; at < valid.size(); ++number) {
      const std::size_t end = std::min(valid.find('\n', at), valid.size());
      const std::string_view line = valid.substr(at, end - at);
      at = end + 1;
      if (!is_blank(line)) add_line(line, part, number);
      if (stopped()) return;
    }
  }

  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  EncodedUnit out;

 private:
  void append(std::span<const std::int32_t> ids) {
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
  }

  void add_line(std::string_view line, const TextPart& part, std::int64_t number) {
    auto found = text_of_line(line, options_.json_field);
    if (const auto* text = std::get_if<std::string>(&found)) return add(*text, true, true);
    Error& error = std::get<Error>(found);
    const auto place = [&] { return fmt::format("{}:{}", part.file->path, number); };
    if (!options_.skip_bad_lines) throw error.in(place());
    if (out.bad_lines.count++ == 0) out.bad_lines.first = place() + ": " + error.message();
  }

  const Tokenizer& tokenizer_;
  const EncodeOptions& options_;
};

}  // namespace

EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer,
                        const EncodeOptions& options) {
  Encoder encoder(tokenizer, options);
  for (const TextPart& part : unit) {
    if (encoder.stopped()) break;
    if (part.file->json_lines)
      encoder.add_lines(part);
    else
      encoder.add(part.text, part.starts_document, part.ends_document);
  }
  return std::move(encoder.out);
}

}  // namespace hgt
