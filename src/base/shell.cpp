#include "hgtrain/base/shell.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <sys/wait.h>

namespace hgt {

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string("_@%+=:,./-").find(c) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::pair<int, std::string> run_shell(const std::string& line) {
  FILE* const pipe = ::popen(line.c_str(), "re");
  if (pipe == nullptr) return {-1, ""};
  std::string out;
  std::array<char, 4096> part;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe))
    out.append(part.data(), size);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

}  // namespace hgt
