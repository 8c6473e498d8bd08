#include "job_needs.h"

#include <algorithm>
#include <filesystem>

#include "environment.h"
#include "program.h"

namespace hgt {

namespace fs = std::filesystem;

bool is_elastic(const JobSpec& spec) {
  return spec.min_hosts > 0 || std::ranges::any_of(spec.hosts, &JobHost::is_spare);
}

bool uses_gpus(const JobSpec& spec) {
  return std::ranges::any_of(
      spec.hosts, [](const JobHost& host) { return host.min_gpus > 0 || !host.devices.empty(); });
}

std::chrono::milliseconds patience_of(const JobSpec& spec) {
  const std::chrono::milliseconds none(0);
  if (spec.rendezvous) return is_elastic(spec) ? spec.rendezvous->join_timeout : none;
  return spec.hosts.empty() ? none : spec.elastic_timeout;
}

std::string folder_there(const JobSpec& spec) {
  return spec.rendezvous ? "" : fs::current_path().string();
}

Inspect inspection_of(const JobSpec& spec) {
  Inspect out;
  const auto there = [&](const std::string& path) {  // nodes work where they were started
    return path.empty() || spec.rendezvous ? path : (fs::current_path() / path).string();
  };
  out.folder = there(spec.log_dir.empty() ? spec.run_dir : spec.log_dir);
  out.run_dir = spec.run_dir;
  out.shared_file = there(spec.shared_file);
  out.with_libraries = spec.own_workers && uses_gpus(spec);
  if (spec.pushed_files.for_all.empty()) {  // files that are sent may make the folder
    out.work_folder = folder_there(spec);
    out.token_files = spec.token_files;
  }
  if (spec.own_workers) return out;  // the worker comes with the agent's program
  out.script = spec.script;
  if (spec.rendezvous) return out;  // nodes look for programs with a PATH of their own
  out.program = program_of_environment(spec);
  out.command = spec.argv(0).at(0);
  out.path = search_path(spec);
  return out;
}

}  // namespace hgt
