#include "options.h"

#include <cstdint>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace hgt {

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::show_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& values) {
  option_.check(CLI::IsMember(values));
  return *this;
}

Option& Option::repeatable() {
  option_.expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Option& Option::or_variable(const std::string& name) {
  option_.envname(name);
  return *this;
}

Option& Option::type_name(const std::string& name) {
  option_.type_name(name);
  return *this;
}

template <class T>
Option Options::add(const std::string& name, T& value, const std::string& help) {
  return Option(*app_.add_option(name, value, help));
}

template Option Options::add(const std::string&, std::string&, const std::string&);
template Option Options::add(const std::string&, std::vector<std::string>&, const std::string&);
template Option Options::add(const std::string&, int&, const std::string&);
template Option Options::add(const std::string&, std::int64_t&, const std::string&);
template Option Options::add(const std::string&, double&, const std::string&);
template Option Options::add(const std::string&, std::optional<int>&, const std::string&);
template Option Options::add(const std::string&, std::optional<std::int64_t>&, const std::string&);

void Options::add_flag(const std::string& name, bool& value, const std::string& help) {
  app_.add_flag(name, value, help);
}

}  // namespace hgt
