#include "hgtrain/model/init.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/ops/normal.h"

namespace hgt {
namespace {

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace

void init_parameters(const ParameterTable& table, std::uint64_t seed, std::span<float> flat,
                     ThreadPool& pool) {
  if (static_cast<std::int64_t>(flat.size()) != table.total)
    throw Error(ErrorKind::kInternal, fmt::format("init: a buffer of {} elements for a table of {}",
                                                  flat.size(), table.total));
  pool.parallel_for(table.total, [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(flat.begin() + begin, flat.begin() + end, 0.0f);
  });
  for (const Parameter& p : table.parameters) {
    const auto values =
        flat.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.numel));
    if (p.init.kind == Init::kOnes)
      std::fill(values.begin(), values.end(), 1.0f);
    else if (p.init.kind == Init::kNormal)
      normal_fill(seed, hash(p.name), static_cast<float>(p.init.std),
                  Tensor(values.data(), {p.numel}), Stream(pool));
  }
}

}  // namespace hgt
