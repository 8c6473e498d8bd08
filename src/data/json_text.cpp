#include "json_text.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hgt {

namespace {

using nlohmann::json;

constexpr const char* kSkipHint =
    "each line is a JSON object of its own; --skip_bad_lines skips lines that are not";

/// Gets the JSON as events, and keeps only the text.
class TextField final : public nlohmann::json_sax<json> {
 public:
  explicit TextField(const std::string& name) : name_(name) {}

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_unsigned(number_unsigned_t) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return other_value(); }
  bool string(string_t& value) override {
    if (depth_ != 1 || is_array_) return true;
    if (key_ == name_)
      text = std::move(value);
    else if (names.size() < 200)
      names += (names.empty() ? "" : ", ") + key_;
    return true;
  }
  bool start_object(std::size_t) override {
    other_value();
    is_object = is_object || depth_ == 0;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    other_value();
    is_array_ = is_array_ || depth_ == 0;
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception& error) override {
    const bool too_large = dynamic_cast<const json::out_of_range*>(&error) != nullptr;
    syntax_error = too_large ? "this JSON cannot be read: a number in it is too large"
                             : fmt::format("this line is not JSON (from its byte {} on)", at);
    return false;
  }

  std::optional<std::string> text;
  std::string syntax_error;
  std::string names;  ///< of the other fields with text
  bool is_object = false;

 private:
  /// If two fields have the same name, the last one counts.
  bool other_value() {
    if (depth_ == 1 && !is_array_ && key_ == name_) text.reset();
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  const std::string& name_;
  std::string key_;
  int depth_ = 0;
  bool is_array_ = false;
};

}  // namespace

std::variant<std::string, Error> text_of_line(std::string_view line, const std::string& field) {
  TextField found(field);
  if (!json::sax_parse(line, &found)) return Error(ErrorKind::kData, found.syntax_error, kSkipHint);
  if (!found.is_object) return Error(ErrorKind::kData, "the line is not a JSON object", kSkipHint);
  if (found.text) return std::move(*found.text);
  return Error(ErrorKind::kData, fmt::format("the line has no text field \"{}\"", field),
               found.names.empty()
                   ? kSkipHint
                   : "name another with --json_field; there is text in: " + found.names);
}

}  // namespace hgt
