#include "job_files.h"

#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/config/hf_folder.h"
#include "hgtrain/config/load.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/machine/cuda_libraries.h"

namespace hgt {
namespace {

/// The job's own timeout is in its config, which is not known yet.
constexpr std::chrono::minutes kTimeout{10};

constexpr std::int64_t kMaxProgramBytes = 1 << 30, kMaxTokenizerBytes = 256 << 20;

/// Rank 0's text for `what`, which it publishes in the store.
std::string said_by_first(ControlChannel& channel, const Environment& environment,
                          const std::string& what, const std::string& mine) {
  if (environment.rank > 0) return channel.get(what, kTimeout);
  channel.set(what, mine);
  return mine;
}

/// The hashes of files, "" for one that is not there.
std::string hashes_of(const std::vector<std::filesystem::path>& files) {
  std::string out;
  for (const auto& file : files)
    out += path_exists(file) ? fmt::format("{:x} ", xxh3(read_file(file, kMaxProgramBytes))) : "- ";
  return out;
}

/// Error(kConfig) if this host's `files`, which `what` names, differ from rank 0's, because each
/// host runs its own.
void require_same_build(ControlChannel& channel, const Environment& environment,
                        const std::string& what, const std::vector<std::filesystem::path>& files) {
  if (environment.num_hosts == 1) return;
  const std::string mine = hashes_of(files);
  if (said_by_first(channel, environment, "hashes of " + what, mine) != mine)
    throw Error(ErrorKind::kConfig,
                fmt::format("the {} of rank {} on {} is not the same as rank 0's", what,
                            environment.rank, host_name()),
                "install the same hgtrain at the same path on every host");
}

/// The files of a tokenizer, each with its hash; "" if it is not there.
std::string hashes_of_tokenizer(const std::string& path) {
  const std::string folder = tokenizer_folder(path);
  std::string out;
  for (const std::string& name : tokenizer_file_names(folder))
    out += fmt::format("{} {:x}\n", name, xxh3(read_file(folder + "/" + name, kMaxTokenizerBytes)));
  return out;
}

/// The folder of another run in which the run's branch begins, or "".
std::string begin_of_branch(const std::string& run_dir) {
  try {
    const auto origin = read_origin(run_dir);
    return origin ? origin_folder(run_dir, *origin) : "";
  } catch (const Error&) {
    return "";  // whoever needs the file reports the error
  }
}

}  // namespace

Config config_of_job(ControlChannel& channel, const Environment& environment,
                     const std::string& path) {
  require_same_build(channel, environment, "program", {"/proc/self/exe"});
  const std::string mine = environment.rank == 0 ? read_file(path, kMaxResolvedBytes) : "";
  const std::string text = said_by_first(channel, environment, "config", mine);
  Config config = config_from_resolved(parse_json<nlohmann::ordered_json>(text));
  if (config.hardware.device == "cuda") {
    const std::filesystem::path folder = own_program().parent_path();
    require_same_build(channel, environment, "CUDA module",
                       {folder / kCudaModuleFiles[0], folder / kCudaModuleFiles[1]});
  }
  return config;
}

void require_same_tokenizer(ControlChannel& channel, const Environment& environment,
                            const std::string& path) {
  if (environment.num_hosts == 1 || path.empty()) return;
  const std::string mine = hashes_of_tokenizer(path);
  const std::string first = said_by_first(channel, environment, "hashes of the tokenizer", mine);
  if (mine.empty() || first.empty() || mine == first) return;
  throw Error(ErrorKind::kData,
              fmt::format("the tokenizer {} of rank {} on {} is not the same as rank 0's", path,
                          environment.rank, host_name()),
              "every host needs the same files at the path of the tokenizer, or none");
}

OwnerFiles::Folders folders_of_job(const TrainRequest& request, const Config& config,
                                   const Environment& environment) {
  OwnerFiles::Folders out{.are_here = request.mark.empty() || path_exists(request.mark)};
  if (environment.rank > 0) return out;
  out.paths = {request.run_dir};
  const bool names_checkpoint = request.resume != "auto" && request.resume != "none";
  for (const std::string& folder : {names_checkpoint ? request.resume : "", config.model.init,
                                    begin_of_branch(request.run_dir)})
    if (!folder.empty()) out.paths.push_back(folder);
  return out;
}

}  // namespace hgt
