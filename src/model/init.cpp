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

void init_parameters(const ParameterTable& table, std::uint64_t seed, Range elements,
                     std::span<float> values, ThreadPool& pool) {
  if (elements.end > table.total || std::ssize(values) != elements.size())
    throw Error(ErrorKind::kInternal,
                fmt::format("init: {} values for elements {} to {} of a table of {}", values.size(),
                            elements.begin, elements.end, table.total));
  pool.parallel_for(elements.size(), [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(values.begin() + begin, values.begin() + end, 0.0f);
  });
  for (const Parameter& p : table.parameters) {
    const Range common{std::max(p.offset, elements.begin),
                       std::min(p.offset + p.numel, elements.end)};
    if (common.size() <= 0) continue;
    const auto part = values.subspan(static_cast<std::size_t>(common.begin - elements.begin),
                                     static_cast<std::size_t>(common.size()));
    if (p.init.kind == Init::kOnes)
      std::fill(part.begin(), part.end(), 1.0f);
    else if (p.init.kind == Init::kNormal)
      normal_fill(seed, hash(p.name), static_cast<float>(p.init.std), common.begin - p.offset,
                  Tensor(part.data(), {common.size()}), Stream(pool));
  }
}

}  // namespace hgt
