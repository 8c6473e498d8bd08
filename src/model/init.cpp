#include "hgtrain/model/init.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/philox.h"

namespace hgt {
namespace {

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

void fill_normal(std::uint64_t seed, std::string_view name, float std, std::span<float> values) {
  const std::uint64_t stream = hash(name);
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words = philox(seed, stream, i / 4);
    const auto first = normal2(words[0], words[1]), second = normal2(words[2], words[3]);
    const float normal[4] = {first[0], first[1], second[0], second[1]};
    for (std::size_t j = 0; j < std::min<std::size_t>(4, values.size() - i); ++j)
      values[i + j] = std * normal[j];
  }
}

}  // namespace

void init_parameters(const ParameterTable& table, std::uint64_t seed, std::span<float> flat) {
  if (static_cast<std::int64_t>(flat.size()) != table.total)
    throw Error(ErrorKind::kInternal, fmt::format("init: a buffer of {} elements for a table of {}",
                                                  flat.size(), table.total));
  std::fill(flat.begin(), flat.end(), 0.0f);
  for (const Parameter& p : table.parameters) {
    const auto values =
        flat.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.numel));
    if (p.init.kind == Init::kOnes)
      std::fill(values.begin(), values.end(), 1.0f);
    else if (p.init.kind == Init::kNormal)
      fill_normal(seed, p.name, static_cast<float>(p.init.std), values);
  }
}

}  // namespace hgt
