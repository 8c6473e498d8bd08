#include "known_gpu.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr double kGiB = 1 << 30;
/// A card that corrects errors keeps as much of its memory for that, and one must be assumed where
/// only its memory is known.
constexpr double kUsableShare = 0.915;

struct Kind {
  const char* name;
  double gib;
  int compute_capability;
};
/// GiB as PyTorch's out-of-memory messages in public issues have the total capacity. Where a kind
/// comes in two sizes, the plain name is the smaller.
constexpr Kind kKinds[] = {
    {"t4", 14.56, 75},        {"v100", 15.77, 70},      {"v100-16gb", 15.77, 70},
    {"v100-32gb", 31.73, 70}, {"rtx2080ti", 10.75, 75}, {"a10", 22.06, 86},
    {"a30", 23.5, 80},        {"a40", 44.35, 86},       {"a6000", 47.4, 86},
    {"a100", 39.39, 80},      {"a100-40gb", 39.39, 80}, {"a100-80gb", 79.14, 80},
    {"rtx3090", 23.69, 86},   {"rtx4090", 23.64, 89},   {"rtx5090", 31.36, 120},
    {"l4", 22.03, 89},        {"l40", 44.4, 89},        {"l40s", 44.4, 89},
    {"h100", 79.1, 90},       {"h100-80gb", 79.1, 90},  {"h200", 139.71, 90},
    {"b200", 178.35, 100}};

/// Letters and digits, small.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Of what people and nvidia-smi call it: "4090", "NVIDIA A100-SXM4-80GB".
std::string kind_name(const std::string& gpu) {
  std::string name = plain(gpu);
  for (const std::string_view word :
       {"nvidia", "geforce", "tesla", "rtx", "sxm2", "sxm4", "sxm5", "pcie", "hbm3"})
    if (const std::size_t at = name.find(word); at != name.npos) name.erase(at, word.size());
  return name;
}

}  // namespace

KnownGpu known_gpu(const std::string& gpu) {
  const auto bytes = [](double gib) { return static_cast<std::int64_t>(gib * kGiB); };
  const std::string name = kind_name(gpu);
  for (const Kind& kind : kKinds)
    if (kind_name(kind.name) == name) return {bytes(kind.gib), kind.compute_capability};
  double count = 0;
  const auto [end, error] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), count);
  const std::string unit = plain({end, gpu.data() + gpu.size()});
  const bool in_gib = unit == "g" || unit == "gb" || unit == "gib", in_mib = unit == "mib";
  if (error == std::errc() && count > 0 && count <= 1 << 20 && (in_gib || in_mib))
    return {bytes(count * kUsableShare / (in_gib ? 1 : 1024))};
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  throw Error(ErrorKind::kConfig, fmt::format("--gpu {}: no such GPU is known", gpu),
              fmt::format("give its memory, as 24GB, or one of {}", fmt::join(names, ", ")));
}

}  // namespace hgt
