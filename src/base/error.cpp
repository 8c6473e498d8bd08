#include "hgtrain/base/error.h"

#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/terminal.h"

namespace hgt {

Error::Error(ErrorKind kind, std::string message, std::string hint)
    : kind_(kind), message_(std::move(message)), hint_(std::move(hint)) {}

Error& Error::in(std::string where) {
  context_.push_back(std::move(where));
  return *this;
}

Error& Error::also(Error other) {
  others_.push_back(std::move(other));
  return *this;
}

Error& Error::note(std::string text) {
  notes_.push_back(std::move(text));
  return *this;
}

std::string Error::text() const {
  std::string text = message_;
  for (const std::string& where : context_)
    text += fmt::format("\n  {} {}", where.starts_with("host ") ? "on" : "in", where);
  if (!hint_.empty()) text += fmt::format("\n  hint: {}", hint_);
  if (kind_ == ErrorKind::kInternal) text += "\n  this is a bug in hgtrain: please report it";
  return printable(text);
}

std::string Error::render(const std::string& program) const {
  std::string text = fmt::format("{}: error: {}\n", program, this->text());
  for (const Error& other : others_) text += other.render(program);
  for (const std::string& note : notes_)
    text += fmt::format("{}: note: {}\n", program, printable(note));
  return text;
}

}  // namespace hgt
