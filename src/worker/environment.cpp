#include "environment.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {
namespace {

int number(const char* name, int lowest, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view view = text;
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < lowest)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} = '{}' is not a number of {} or more", name, view, lowest),
                "the launcher sets it: do not start a worker with a part of its environment");
  return value;
}

/// The steps of checkpoints, whose paths are separated by colons.
std::vector<std::int64_t> steps_of(const char* paths) {
  std::vector<std::int64_t> out;
  std::istringstream words(paths != nullptr ? paths : "");
  for (std::string path; std::getline(words, path, ':');)
    if (const std::int64_t step = step_of(std::filesystem::path(path).filename().string());
        step >= 0)
      out.push_back(step);
  return out;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.world_size = number("WORLD_SIZE", 1, 1);
  environment.rank = number("RANK", 0, 0);
  environment.num_hosts = number("GROUP_WORLD_SIZE", 1, 1);
  environment.host = number("GROUP_RANK", 0, 0);
  environment.restarts = number("TORCHELASTIC_RESTART_COUNT", 0, 0);
  environment.has_joined_hosts = number("HGTRAIN_HAS_JOINED_HOSTS", 0, 0) > 0;
  environment.needed_steps = steps_of(std::getenv("HGTRAIN_NEEDED_CHECKPOINTS"));
  environment.local_rank = number("LOCAL_RANK", 0, environment.rank);
  if (environment.rank >= environment.world_size)
    throw Error(ErrorKind::kConfig, fmt::format("RANK = {} is not below WORLD_SIZE = {}",
                                                environment.rank, environment.world_size));
  for (const char* name : {"MASTER_ADDR", "HGTRAIN_ADDRESS"})
    if (const char* host = std::getenv(name)) environment.network_host = host;
  return environment;
}

}  // namespace hgt
