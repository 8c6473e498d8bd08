#include "gpu_memory.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

struct Kind {
  const char* name;
  std::int64_t gib;
};
/// Datasheets; where a kind comes in two sizes, the plain name is the smaller.
constexpr Kind kKinds[] = {{"t4", 16},      {"v100", 16},     {"v10032gb", 32}, {"rtx2080ti", 11},
                           {"a10", 24},     {"a30", 24},      {"a40", 48},      {"a6000", 48},
                           {"a100", 40},    {"a10080gb", 80}, {"rtx3090", 24},  {"rtx4090", 24},
                           {"rtx5090", 32}, {"l4", 24},       {"l40", 48},      {"l40s", 48},
                           {"h100", 80},    {"h200", 141},    {"b200", 180}};

/// Letters and digits, small.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::int64_t gpu_memory(const std::string& gpu) {
  const std::string name = plain(gpu);
  for (const Kind& kind : kKinds)
    if (name == kind.name || "rtx" + name == kind.name) return kind.gib * kGiB;
  std::int64_t gib = 0;
  const auto [end, error] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), gib);
  const std::string unit = plain({end, gpu.data() + gpu.size()});
  if (error == std::errc() && gib > 0 && gib <= 1 << 20 &&
      (unit == "g" || unit == "gb" || unit == "gib"))
    return gib * kGiB;
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  throw Error(ErrorKind::kConfig, fmt::format("--gpu {}: no such GPU is known", gpu),
              fmt::format("give its memory, as 24GB, or one of {}", fmt::join(names, ", ")));
}

}  // namespace hgt
