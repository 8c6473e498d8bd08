#include "environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sched.h>
#include <set>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/resources.h"

extern char** environ;

namespace hgt {
namespace {

bool is_set(const JobSpec& spec, const char* name) {
  return spec.env.count(name) > 0 || std::getenv(name) != nullptr;
}

/// Names that other launchers' workers go by: torchrun's, DeepSpeed's, Horovod's (CROSS_*).
std::map<std::string, std::string> contract(const JobSpec& spec, int rank, int attempt) {
  const std::string rank_text = std::to_string(rank);
  const std::string world_text = std::to_string(spec.num_workers);
  std::map<std::string, std::string> out;
  for (const char* name : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) out[name] = rank_text;
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "ROLE_WORLD_SIZE"})
    out[name] = world_text;
  for (const char* name : {"NODE_RANK", "GROUP_RANK", "CROSS_RANK"}) out[name] = "0";
  for (const char* name : {"GROUP_WORLD_SIZE", "CROSS_SIZE"}) out[name] = "1";
  out["ROLE_NAME"] = "default";
  out["MASTER_ADDR"] = "127.0.0.1";
  out["MASTER_PORT"] = spec.master_port ? std::to_string(spec.master_port) : "";
  out["TORCHELASTIC_RESTART_COUNT"] = std::to_string(attempt);
  out["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(spec.max_restarts);
  out["TORCHELASTIC_RUN_ID"] = out["HGTRAIN_RUN_ID"] = spec.run_id;
  out["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 listens on MASTER_PORT itself
  out["TORCHELASTIC_ERROR_FILE"] = error_file(spec, rank);
  out["HGTRAIN_RUN_DIR"] = spec.run_dir;
  return out;
}

void refuse_contract_names(const JobSpec& spec) {
  auto names = contract(spec, 0, 0);
  names["HGTRAIN_CONTROL_FD"] = names["HGTRAIN_JOB_KEY"] = "";
  for (const auto& [name, value] : spec.env) {
    if (names.count(name))
      throw Error(ErrorKind::kConfig, fmt::format("{} cannot be given: the launcher sets it", name),
                  name == "MASTER_PORT" ? "use --master_port" : "");
    if (name.empty() || name.find('=') != std::string::npos ||
        (name + value).find('\0') != std::string::npos)
      throw Error(ErrorKind::kConfig,
                  fmt::format("'{}' cannot name an environment variable", name));
  }
}

}  // namespace

std::string error_file(const JobSpec& spec, int rank) {
  // Absolute: a program may change its folder before it fails.
  return spec.log_dir.empty()
             ? ""
             : std::filesystem::absolute(spec.log_dir) / fmt::format("rank_{}.error.json", rank);
}

std::string log_file(const JobSpec& spec, int rank) {
  return spec.log_dir.empty() ? "" : fmt::format("{}/rank_{}.log", spec.log_dir, rank);
}

std::string search_path(const JobSpec& spec) {
  const auto it = spec.env.find("PATH");
  if (it != spec.env.end()) return it->second;
  const char* path = std::getenv("PATH");
  return path ? path : "/usr/local/bin:/usr/bin:/bin";
}

EnvironmentChange worker_environment(const JobSpec& spec, int rank, int attempt) {
  refuse_contract_names(spec);
  EnvironmentChange out;
  out.set = spec.env;
  out.at_start = {"HGTRAIN_CONTROL_FD", "HGTRAIN_JOB_KEY"};
  for (const auto& [name, value] : contract(spec, rank, attempt)) {
    if (!value.empty())
      out.set[name] = value;
    else if (name == "TORCHELASTIC_ERROR_FILE" || name == "HGTRAIN_RUN_DIR")
      out.unset.push_back(name);
    else
      out.at_start.push_back(name);
  }
  // All workers together use one thread per core, unless the user has set the variable.
  if (!is_set(spec, "OMP_NUM_THREADS"))
    out.set["OMP_NUM_THREADS"] = std::to_string(std::max(1, usable_cores() / spec.num_workers));
  // A failed NCCL collective ends its process, and Python's output comes when it is printed.
  if (!is_set(spec, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    out.set["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  if (!is_set(spec, "PYTHONUNBUFFERED")) out.set["PYTHONUNBUFFERED"] = "1";
  return out;
}

std::vector<std::string> full_environment(const EnvironmentChange& change,
                                          const std::map<std::string, std::string>& at_start) {
  std::map<std::string, std::string> set = at_start;
  set.insert(change.set.begin(), change.set.end());
  const std::set<std::string> unset(change.unset.begin(), change.unset.end());
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!set.count(name) && !unset.count(name)) out.push_back(text);
  }
  for (const auto& [name, value] : set) out.push_back(name + "=" + value);
  return out;
}

}  // namespace hgt
