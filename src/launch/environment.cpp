#include "environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sched.h>
#include <set>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/host_choice.h"
#include "hgtrain/machine/resources.h"

extern char** environ;

namespace hgt {
namespace {

bool is_set(const JobSpec& spec, const char* name) {
  return spec.env.count(name) > 0 || std::getenv(name) != nullptr;
}

/// Names that other launchers' workers go by: torchrun's, DeepSpeed's, Horovod's (CROSS_*).
std::map<std::string, std::string> contract(const JobSpec& spec, int rank, int attempt,
                                            const RankPlace& place) {
  std::map<std::string, std::string> out;
  const auto set = [&](std::initializer_list<const char*> names, int value) {
    for (const char* name : names) out[name] = std::to_string(value);
  };
  set({"RANK", "ROLE_RANK"}, rank);
  set({"LOCAL_RANK"}, place.local_rank);
  set({"WORLD_SIZE", "ROLE_WORLD_SIZE"}, spec.num_workers);
  set({"LOCAL_WORLD_SIZE", "LOCAL_SIZE"}, place.local_size);
  set({"NODE_RANK", "GROUP_RANK", "CROSS_RANK"}, place.host);
  set({"GROUP_WORLD_SIZE", "CROSS_SIZE"}, place.num_hosts);
  out["MASTER_ADDR"] = place.master_addr;
  out["MASTER_PORT"] = spec.master_port ? std::to_string(spec.master_port) : "";
  out["TORCHELASTIC_RESTART_COUNT"] = std::to_string(attempt);
  out["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(spec.max_restarts);
  out["TORCHELASTIC_RUN_ID"] = out["HGTRAIN_RUN_ID"] = spec.run_id;
  out["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 listens on MASTER_PORT itself
  out["TORCHELASTIC_ERROR_FILE"] = error_file(spec, rank);
  out["HGTRAIN_RUN_DIR"] = spec.run_dir;
  out["HGTRAIN_ADDRESS"] = place.address;
  return out;
}

void refuse_contract_names(const JobSpec& spec) {
  for (const auto& [name, value] : spec.env) {
    if (const auto reserved = why_reserved(name)) throw Error(*reserved);
    if (name.empty() || name.find('=') != std::string::npos ||
        (name + value).find('\0') != std::string::npos)
      throw Error(ErrorKind::kConfig,
                  fmt::format("'{}' cannot name an environment variable", name));
  }
}

/// A name for --export that is no variable here. srun takes ALL, NAME=VALUE and lists.
Error not_set(const std::string& name) {
  const auto error = [&](const char* what, const std::string& hint) {
    return Error(ErrorKind::kConfig, fmt::format("--export {}: {}", name, what), hint);
  };
  if (name.find(',') != std::string::npos)
    return error("it takes one name", "type --export once for each name: --export A --export B");
  if (name.find('=') != std::string::npos)
    return error("it takes a name, without a value", fmt::format("use --env {}", name));
  if (name == "ALL")
    return error("there is no variable of this name",
                 "leave it out: the hosts get the variables that docs/hosts.md lists; name others, "
                 "one by one: --export NAME");
  return error("it is not set in this shell",
               fmt::format("to give it a value: --env {}=VALUE", name));
}

}  // namespace

std::optional<Error> why_reserved(const std::string& name) {
  auto names = contract({}, 0, 0, {});
  names["HGTRAIN_CONTROL_FD"] = names["HGTRAIN_JOB_KEY"] = "";
  if (!names.contains(name)) return std::nullopt;
  return Error(ErrorKind::kConfig, fmt::format("{} cannot be given: the launcher sets it", name),
               name == "MASTER_PORT"   ? "use --master_port"
               : name == "MASTER_ADDR" ? "use --master_addr"
                                       : "");
}

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
  return worker_environment(spec, rank, attempt,
                            {.local_rank = rank, .local_size = spec.num_workers});
}

EnvironmentChange worker_environment(const JobSpec& spec, int rank, int attempt,
                                     const RankPlace& place) {
  refuse_contract_names(spec);
  EnvironmentChange out;
  out.set = spec.env;
  out.at_start = {"HGTRAIN_CONTROL_FD", "HGTRAIN_JOB_KEY"};
  for (const auto& [name, value] : contract(spec, rank, attempt, place)) {
    if (!value.empty())
      out.set[name] = value;
    else if (name == "TORCHELASTIC_ERROR_FILE" || name == "HGTRAIN_RUN_DIR" ||
             name == "HGTRAIN_ADDRESS")
      out.unset.push_back(name);
    else
      out.at_start.push_back(name);
  }
  out.set.emplace("ROLE_NAME", "default");
  // All workers together use one thread per core, unless the user has set the variable.
  const int sharers = place.core_sharers > 0 ? place.core_sharers : place.local_size;
  if (!is_set(spec, "OMP_NUM_THREADS"))
    out.set["OMP_NUM_THREADS"] = std::to_string(std::max(1, usable_cores() / sharers));
  // A failed NCCL collective ends its process, and Python's output comes when it is printed.
  if (!is_set(spec, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    out.set["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  if (!is_set(spec, "PYTHONUNBUFFERED")) out.set["PYTHONUNBUFFERED"] = "1";
  return out;
}

std::map<std::string, std::string> host_environment(const JobHost& host) {
  std::map<std::string, std::string> out;
  if (!host.devices.empty())
    out["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(host.devices, ","));
  if (!host.interface.empty()) {
    out["NCCL_SOCKET_IFNAME"] = "=" + host.interface;  // else NCCL takes what begins with it
    out["GLOO_SOCKET_IFNAME"] = host.interface;
  }
  return out;
}

std::map<std::string, std::string> travelling_environment(const std::vector<std::string>& exports) {
  constexpr const char* kNames[] = {
      "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LANG", "TZ"};
  constexpr const char* kBeginnings[] = {
      "PYTHON", "LC_",           "CUDA_",       "NCCL_",     "TORCH",   "OMP_",
      "MKL_",   "KMP_",          "GOMP_",       "OPENBLAS_", "GLOO_",   "UCX_",
      "HF_",    "TRANSFORMERS_", "TOKENIZERS_", "WANDB_",    "MLFLOW_", "HGTRAIN_"};
  const auto travels = [&](const std::string& name) {
    if (std::find(exports.begin(), exports.end(), name) != exports.end()) return true;
    // The numbers of another machine's GPUs mean nothing, and no worker may see the secret.
    if (name == "CUDA_VISIBLE_DEVICES" || name == kJobSecretVariable) return false;
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
           std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                       [&](const char* beginning) { return name.starts_with(beginning); });
  };
  for (const std::string& name : exports)
    if (std::getenv(name.c_str()) == nullptr) throw not_set(name);
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos && travels(text.substr(0, equals)))
      out[text.substr(0, equals)] = text.substr(equals + 1);
  }
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
