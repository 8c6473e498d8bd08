#include "worker_program.h"

#include <cerrno>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job.h"

namespace hgt {

std::string worker_program() {
  const auto program = own_program().parent_path() / "hgtrain-worker";
  if (!path_exists(program, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("there is no {}", program.string()),
                "hgtrain and hgtrain-worker must be in one folder; scripts/build makes both");
  return program.string();
}

void become_program(std::vector<std::string> argv) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw_file_error("start", argv[0], errno, ErrorKind::kConfig);
}

int print_result_of_job(const std::vector<std::string>& argv, int workers) {
  JobSpec spec;
  spec.argv = [&](int) { return argv; };
  spec.num_workers = workers;
  spec.own_workers = true;
  spec.on_event = [](int, std::string_view kind, const nlohmann::json& body) {
    if (kind == "result") say("{}", body.value("text", ""));
  };
  const Verdict verdict = run_job(spec);
  tell("{}", verdict.render());
  return verdict.exit_code;
}

}  // namespace hgt
