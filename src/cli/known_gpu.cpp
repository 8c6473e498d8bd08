#include "known_gpu.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/text.h"

namespace hgt {
namespace {

constexpr double kGiB = 1 << 30;
/// The share of its memory that a card with error correction (ECC) leaves usable. If only the size
/// of its memory is known, a GPU is assumed to be such a card.
constexpr double kUsableShare = 0.915;

struct Kind {
  const char* name;
  double gib;
  int compute_capability;
};
/// GiB of total capacity, as PyTorch's out-of-memory messages in public issues have it for one or
/// another card of that size and generation on Linux. If a kind comes in two sizes, the plain name
/// is the smaller one, unless that is rare.
constexpr Kind kKinds[] = {
    // Pascal, which hgtrain has no kernels for.
    {"gtx1050", 1.95, 61},
    {"gtx1050ti", 3.94, 61},
    {"gtx1060", 5.92, 61},
    {"gtx1060-3gb", 2.94, 61},
    {"gtx1060-6gb", 5.92, 61},
    {"gtx1070", 7.92, 61},
    {"gtx1070ti", 7.92, 61},
    {"gtx1080", 7.92, 61},
    {"gtx1080ti", 10.91, 61},
    {"titanxp", 11.91, 61},
    {"p4", 7.43, 61},
    {"p40", 22.38, 61},
    {"p100", 15.9, 60},
    // Volta.
    {"titanv", 11.78, 70},
    {"v100", 15.77, 70},
    {"v100-16gb", 15.77, 70},
    {"v100-32gb", 31.73, 70},
    // Turing.
    {"gtx1650", 3.81, 75},
    {"gtx1650ti", 3.81, 75},
    {"gtx1650super", 3.81, 75},
    {"gtx1660", 5.79, 75},
    {"gtx1660ti", 5.79, 75},
    {"gtx1660super", 5.79, 75},
    {"rtx2060", 5.79, 75},
    {"rtx2060-12gb", 11.76, 75},
    {"rtx2060super", 7.79, 75},
    {"rtx2070", 7.79, 75},
    {"rtx2070super", 7.79, 75},
    {"rtx2080", 7.79, 75},
    {"rtx2080super", 7.79, 75},
    {"rtx2080ti", 10.75, 75},
    {"titanrtx", 23.65, 75},
    {"quadrortx4000", 7.79, 75},
    {"quadrortx5000", 15.74, 75},
    {"quadrortx6000", 23.65, 75},
    {"quadrortx8000", 47.45, 75},
    {"t4", 14.56, 75},
    // Ampere.
    {"rtx2050", 3.8, 86},
    {"rtx3050", 7.79, 86},
    {"rtx3050-6gb", 5.79, 86},
    {"rtx3050laptop", 3.8, 86},
    {"rtx3050tilaptop", 3.8, 86},
    {"rtx3060", 11.76, 86},
    {"rtx3060-8gb", 7.78, 86},
    {"rtx3060laptop", 5.8, 86},
    {"rtx3060ti", 7.78, 86},
    {"rtx3070", 7.78, 86},
    {"rtx3070laptop", 7.78, 86},
    {"rtx3070ti", 7.78, 86},
    {"rtx3070tilaptop", 7.78, 86},
    {"rtx3080", 9.77, 86},
    {"rtx3080-12gb", 11.76, 86},
    {"rtx3080laptop", 7.78, 86},
    {"rtx3080laptop-16gb", 15.74, 86},
    {"rtx3080ti", 11.76, 86},
    {"rtx3080tilaptop", 15.74, 86},
    {"rtx3090", 23.69, 86},
    {"rtx3090ti", 23.69, 86},
    {"a2", 14.56, 86},
    {"a10", 22.06, 86},
    {"a10g", 22.06, 86},
    {"a16", 14.56, 86},
    {"a30", 23.5, 80},
    {"a40", 44.35, 86},
    {"a2000", 5.79, 86},
    {"a2000-12gb", 11.76, 86},
    {"a4000", 15.61, 86},
    {"a4500", 19.7, 86},
    {"a5000", 23.68, 86},
    {"a5500", 23.68, 86},
    {"a6000", 47.4, 86},
    {"a100", 39.39, 80},
    {"a100-40gb", 39.39, 80},
    {"a100-80gb", 79.14, 80},
    {"a800", 79.14, 80},
    // Ada.
    {"rtx4050laptop", 5.78, 89},
    {"rtx4060", 7.75, 89},
    {"rtx4060laptop", 7.75, 89},
    {"rtx4060ti", 7.75, 89},
    {"rtx4060ti-16gb", 15.6, 89},
    {"rtx4070", 11.72, 89},
    {"rtx4070laptop", 7.75, 89},
    {"rtx4070super", 11.72, 89},
    {"rtx4070ti", 11.72, 89},
    {"rtx4070tisuper", 15.6, 89},
    {"rtx4080", 15.6, 89},
    {"rtx4080laptop", 11.72, 89},
    {"rtx4080super", 15.6, 89},
    {"rtx4090", 23.64, 89},
    {"rtx4090d", 23.64, 89},
    {"rtx4090laptop", 15.6, 89},
    {"rtx2000ada", 15.6, 89},
    {"rtx4000ada", 19.5, 89},
    {"rtx4500ada", 23.5, 89},
    {"rtx5000ada", 31.4, 89},
    {"rtx6000ada", 47.4, 89},
    {"l4", 22.03, 89},
    {"l20", 44.4, 89},
    {"l40", 44.4, 89},
    {"l40s", 44.4, 89},
    // Hopper.
    {"h20", 95.0, 90},
    {"h100", 79.1, 90},
    {"h100-80gb", 79.1, 90},
    {"h100nvl", 93.0, 90},
    {"h800", 79.1, 90},
    {"h200", 139.71, 90},
    {"h200nvl", 139.71, 90},
    {"gh200", 94.5, 90},
    // Blackwell.
    {"rtx5050", 7.53, 120},
    {"rtx5050laptop", 7.53, 120},
    {"rtx5060", 7.53, 120},
    {"rtx5060laptop", 7.53, 120},
    {"rtx5060ti", 7.53, 120},
    {"rtx5060ti-16gb", 15.47, 120},
    {"rtx5070", 11.5, 120},
    {"rtx5070laptop", 7.53, 120},
    {"rtx5070ti", 15.47, 120},
    {"rtx5070tilaptop", 11.5, 120},
    {"rtx5080", 15.47, 120},
    {"rtx5080laptop", 15.47, 120},
    {"rtx5090", 31.36, 120},
    {"rtx5090d", 31.36, 120},
    {"rtx5090laptop", 23.4, 120},
    {"rtxpro4000", 23.4, 120},
    {"rtxpro4500", 31.4, 120},
    {"rtxpro5000", 47.4, 120},
    {"rtxpro6000", 94.97, 120},
    {"b200", 178.35, 100},
    {"b300", 267.0, 103},
    {"gb200", 184.0, 100},
    {"gb10", 119.6, 121},
};

/// The letters and digits of a name, in lower case.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// The name of a kind, from what people and nvidia-smi call it: "4090", "NVIDIA A100-SXM4-80GB".
std::string kind_name(const std::string& gpu) {
  std::string name = plain(gpu);
  for (const std::string_view word : {"nvidia",
                                      "geforce",
                                      "tesla",
                                      "quadro",
                                      "gtx",
                                      "rtx",
                                      "sxm2",
                                      "sxm4",
                                      "sxm5",
                                      "sxm",
                                      "pcie",
                                      "hbm3",
                                      "hbm2",
                                      "graphics",
                                      "gpu",
                                      "withmaxqdesign",
                                      "maxq",
                                      "generation",
                                      "blackwellworkstationedition",
                                      "blackwell",
                                      "dgxspark"})
    if (const std::size_t at = name.find(word); at != name.npos) name.erase(at, word.size());
  if (const std::size_t at = name.find("mobile"); at != name.npos) name.replace(at, 6, "laptop");
  return name;
}

/// Whether `name` is that of a kind, with or without its memory: "3060", "306012gb".
bool is_kind(const Kind& kind, std::string_view name) {
  const std::string plain_name = kind_name(kind.name);
  if (!name.starts_with(plain_name)) return false;
  name.remove_prefix(plain_name.size());
  if (name.empty()) return true;
  constexpr double kMinUsable = 0.9;
  int gigabytes = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), gigabytes);
  return error == std::errc() && std::string_view(end, name.data() + name.size()) == "gb" &&
         kind.gib <= gigabytes && kind.gib >= kMinUsable * gigabytes;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Kind& kind : kKinds) out.emplace_back(kind.name);
  return out;
}

/// The kind that `name` begins with ("rtx4090ti": rtx4090), or the one that is spelled most like
/// it.
std::string similar_kind(const std::string& name) {
  std::string longest;
  for (const Kind& kind : kKinds)
    if (const std::string known = plain(kind.name);
        name.starts_with(known) && known.size() > plain(longest).size())
      longest = kind.name;
  return longest.empty() ? nearest(name, names()) : longest;
}

}  // namespace

KnownGpu known_gpu(const std::string& gpu) {
  const auto bytes = [](double gib) { return static_cast<std::int64_t>(gib * kGiB); };
  const std::string name = kind_name(gpu);
  for (const Kind& kind : kKinds)
    if (is_kind(kind, name)) return {bytes(kind.gib), kind.compute_capability};
  double count = 0;
  const auto [end, error] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), count);
  const std::string unit = plain({end, gpu.data() + gpu.size()});
  const bool in_gib = unit == "g" || unit == "gb" || unit == "gib", in_mib = unit == "mib";
  if (error == std::errc() && count > 0 && count <= 1 << 20 && (in_gib || in_mib))
    return {bytes(count * kUsableShare / (in_gib ? 1 : 1024))};
  const std::string typed = plain(gpu);
  const bool is_amd = typed.starts_with("mi") && typed.find_first_of("0123456789") == 2;
  if (is_amd || typed.starts_with("gaudi"))
    throw Error(ErrorKind::kConfig,
                fmt::format("--gpu {}: hgtrain trains on NVIDIA GPUs only", gpu),
                "leave it out to plan for workers on the CPU");
  if (error == std::errc() && unit.empty())
    throw Error(ErrorKind::kConfig, fmt::format("--gpu {} has no unit", gpu),
                fmt::format("if that is its memory in GB: --gpu {}GB", gpu));
  if (error == std::errc() && (in_gib || in_mib))
    throw Error(ErrorKind::kConfig, fmt::format("--gpu {}: no GPU has that much memory", gpu),
                "give its memory, as 24GB");
  const std::string near = similar_kind(typed);
  throw Error(ErrorKind::kConfig, fmt::format("--gpu {}: no such GPU is known", gpu),
              near.empty()
                  ? fmt::format("give its memory, as 24GB, or one of {}", fmt::join(names(), ", "))
                  : fmt::format("did you mean {}? Or give its memory, as 24GB", near));
}

}  // namespace hgt
