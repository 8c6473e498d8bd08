#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

#include "support/process.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace hgt {

/// A launcher in its own process with a job, in a folder of its own. In its arguments a word
/// "@NAME" is the path of NAME in that folder. If `console` is a descriptor, it prints there, and
/// out() and err() are empty.
class LauncherProcess {
 public:
  explicit LauncherProcess(const std::vector<std::string>& args, int console = -1)
      : process_(command(args, folder_), folder_.path(), console) {}

  pid_t pid() const { return process_.pid(); }
  void kill(int signal) const { process_.kill(signal); }
  int wait() { return process_.wait(); }
  std::string out() const { return process_.out(); }
  std::string err() const { return process_.err(); }
  std::string file(const std::string& name) const { return contents(folder_ / name); }
  nlohmann::json verdict() const { return parse_json<nlohmann::json>(file("verdict.json")); }
  nlohmann::json failure() const { return verdict().value("first_failure", nlohmann::json()); }

  /// Waits until `text` has been printed on stdout so often.
  bool prints(const std::string& text, int times = 1) const {
    return eventually([&] {
      int seen = 0;
      const std::string printed = out();
      for (std::size_t at = 0; (at = printed.find(text, at)) != std::string::npos; ++at) ++seen;
      return seen >= times;
    });
  }
  /// Numbers that ranks have printed as "NAME=NUMBER", process ids say.
  std::vector<pid_t> numbers(const std::string& name) const {
    std::vector<pid_t> found;
    const std::string printed = out();
    for (std::size_t at = 0; (at = printed.find(name + "=", at)) != std::string::npos; ++at)
      found.push_back(std::atoi(printed.c_str() + at + name.size() + 1));
    return found;
  }

 private:
  static std::vector<std::string> command(const std::vector<std::string>& args,
                                          const TemporaryFolder& folder) {
    std::vector<std::string> out{LAUNCHER, "--verdict", folder / "verdict.json"};
    for (const std::string& arg : args)
      out.push_back(arg.substr(0, 1) == "@" ? folder / arg.substr(1) : arg);
    return out;
  }

  TemporaryFolder folder_;
  Process process_;
};

/// None of these processes is left.
inline bool all_end(const std::vector<pid_t>& pids) {
  return eventually([&] {
    for (const pid_t pid : pids)
      if (is_alive(pid)) return false;
    return true;
  });
}

}  // namespace hgt
