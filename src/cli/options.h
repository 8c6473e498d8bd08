#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hgt {

/// A flag or argument of a command. Each call returns the same option.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option& required();
  /// Help shows the variable's value as the default.
  Option& show_default();
  Option& one_of(const std::vector<std::string>& values);
  /// May be given several times, with one value each time.
  Option& repeatable();
  /// The value of this environment variable counts if the flag is not given.
  Option& or_variable(const std::string& name);
  /// What help calls a value: "UINT".
  Option& type_name(const std::string& name);

 private:
  CLI::Option& option_;
};

/// The flags and arguments of a command. Commands see CLI11 only through this class, because each
/// file that includes CLI11 takes seconds to compile.
class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}
  /// `name` is "--shape" for a flag with a value, "FILE" for an argument. Parsing sets `value`,
  /// which must outlive it; if the user does not give the flag, the value stays. T is one of those
  /// that options.cpp lists.
  template <class T>
  Option add(const std::string& name, T& value, const std::string& help);
  void add_flag(const std::string& name, bool& value, const std::string& help);

 private:
  CLI::App& app_;
};

}  // namespace hgt
