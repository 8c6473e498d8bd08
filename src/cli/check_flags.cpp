#include "check_flags.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

/// `there` is the memory to compare with, 0 if it is not known; `words` say in the message what it
/// is, with {} for the amount.
void refuse_beyond(const char* flag, std::int64_t bytes, std::int64_t there, const char* words) {
  if (there <= 0 || bytes <= there) return;
  const auto [asked, room] = human_bytes(bytes, there);
  throw Error(ErrorKind::kDevice,
              fmt::format("{} asks for {} of memory, and {}", flag, asked,
                          fmt::format(fmt::runtime(words), room)),
              fmt::format("use a smaller {}", flag));
}

}  // namespace

std::int64_t free_memory() {
  const Resources machine = resources_of();
  if (machine.memory_limit_bytes == kUnlimited) return machine.available_bytes;
  return std::min(machine.available_bytes, machine.memory_limit_bytes);
}

void check_range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
                 const char* hint) {
  if (value >= min && value <= max) return;
  const bool is_typed = value > INT64_MIN && value < INT64_MAX;  // which stand for what is beyond
  throw Error(ErrorKind::kConfig,
              fmt::format("{}{} is not between {} and {}", flag,
                          is_typed ? fmt::format(" {}", value) : "", min, max),
              hint);
}

void require_one_count(std::optional<std::int64_t> num_gpus,
                       std::optional<std::int64_t> num_workers) {
  if (num_gpus && num_workers)
    throw Error(ErrorKind::kConfig, "--num_gpus and --num_workers are both given",
                "use --num_gpus N for N GPUs, or --num_workers N for N workers on the CPU");
}

ProcessCount process_count(const char* flag, const std::string& text, bool is_here) {
  if (text == "gpu") return {{}, true};
  if (text == "cpu" && !is_here)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} cpu counts the cores of this machine, not those of hosts", flag),
                "give their number: --hosts a:16,b:16");
  if (text == "auto" && (!is_here || !visible_gpus().gpus.empty())) return {};
  if (text == "cpu" || text == "auto") return {usable_cores()};
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end)
    throw Error(ErrorKind::kConfig, fmt::format("{} {} is not a number of workers", flag, text),
                "use a whole number, or gpu, cpu or auto");
  return {number};
}

void check_memory(const char* flag, std::int64_t bytes) {
  refuse_beyond(flag, bytes, free_memory(), "{} are free");
}

void check_memory(const char* flag, std::int64_t bytes, const VisibleGpu& gpu) {
  refuse_beyond(flag, bytes, gpu.memory_bytes, "the GPU has {}");
}

}  // namespace hgt
