#include "worker_program.h"

#include <cerrno>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {

std::string worker_program() {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hgtrain-worker";
  if (!path_exists(program, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("there is no {}", program.string()),
                "hgtrain and hgtrain-worker belong into one folder; scripts/build makes both");
  return program.string();
}

void become_worker(std::vector<std::string> argv) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  execv(words[0], words.data());
  throw_file_error("start", argv[0], errno, ErrorKind::kConfig);
}

}  // namespace hgt
