#pragma once

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

namespace hgt {

/// "" if the file cannot be read: a process may end before its file in /proc is.
inline std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Polls until `condition` holds; false after a time that only a broken program takes.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

/// The process is there and no zombie.
inline bool is_alive(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t state = stat.rfind(')');
  return state != std::string::npos && stat.compare(state, 3, ") Z") != 0;
}

/// A program with stdout and stderr in files, killed at the end of the test if it still runs.
class Process {
 public:
  /// `folder` gets the files `out` and `err`. If `console` is a descriptor, both streams go there.
  Process(const std::vector<std::string>& argv, const std::string& folder, int console = -1)
      : out_path_(folder + "/out"), err_path_(folder + "/err") {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    const auto redirect = [console](int fd, const std::string& path) {
      dup2(console >= 0 ? console : open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666), fd);
    };
    redirect(1, out_path_);
    redirect(2, err_path_);
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(126);
  }
  ~Process() {
    if (status_) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal) const { REQUIRE(::kill(pid_, signal) == 0); }
  /// As the shell says it: 128 + N for a signal.
  int wait() {
    if (!status_) {
      int status = 0;
      if (waitpid(pid_, &status, 0) != pid_) return -1;
      status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return *status_;
  }
  std::string out() const { return contents(out_path_); }
  std::string err() const { return contents(err_path_); }

 private:
  std::string out_path_;
  std::string err_path_;
  pid_t pid_;
  std::optional<int> status_;
};

}  // namespace hgt
