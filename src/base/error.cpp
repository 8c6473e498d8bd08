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

std::string Error::render(const std::string& program) const {
  std::string text = fmt::format("{}: error: {}\n", program, message_);
  for (const std::string& where : context_) text += fmt::format("  in {}\n", where);
  if (!hint_.empty()) text += fmt::format("  hint: {}\n", hint_);
  if (kind_ == ErrorKind::kInternal) text += "  this is a bug in hgtrain: please report it\n";
  for (const Error& other : others_) text += other.render(program);
  return printable(text);
}

}  // namespace hgt
