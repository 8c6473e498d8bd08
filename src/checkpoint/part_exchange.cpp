#include "part_exchange.h"

#include <algorithm>
#include <cstring>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

/// The elements of the tensor that the ranks have as elements `local` of their parts.
std::vector<Range> elements_of(Range local, std::span<const Placement> of_ranks) {
  std::vector<Range> runs;
  for (const Placement& placement : of_ranks)
    placement.for_each_run(local, [&](const Placement::Run& run) {
      runs.push_back({run.whole, run.whole + run.size});
    });
  std::ranges::sort(runs, {}, &Range::begin);
  std::vector<Range> out;
  for (const Range& run : runs)
    if (!out.empty() && run.begin <= out.back().end)
      out.back().end = std::max(out.back().end, run.end);
    else
      out.push_back(run);
  return out;
}

}  // namespace

std::vector<Range> ranges_of(Range elements, std::int64_t range_elements) {
  std::vector<Range> out;
  for (std::int64_t at = elements.begin; at < elements.end; at = out.back().end)
    out.push_back({at, std::min((at / range_elements + 1) * range_elements, elements.end)});
  return out;
}

void PartExchange::assemble(const TensorPart& part, std::span<const Placement> of_ranks,
                            const std::function<void(const TensorPart&)>& visit) {
  if (group_ == nullptr || group_->size() != std::ssize(of_ranks))
    throw Error(ErrorKind::kInternal, "a tensor rank saves without its group");
  const DType dtype = part.values.dtype();
  const std::int64_t range_elements = kBytes / static_cast<std::int64_t>(size_of(dtype));
  for (const Range& elements : elements_of(part.elements, of_ranks))
    for (const Range& range : ranges_of(elements, range_elements)) {
      gather(part, of_ranks, range);
      if (turn_++ % group_->size() != group_->rank()) continue;
      unpack(part, of_ranks, range);
      visit({range, Tensor(assembled_.data(), {range.size()}, dtype)});
    }
}

void PartExchange::gather(const TensorPart& part, std::span<const Placement> of_ranks,
                          Range range) {
  if (gathered_.bytes() == 0) {
    gathered_ = Buffer("exchange of a checkpoint", kBytes);
    assembled_ = Buffer("exchange of a checkpoint", kBytes);
  }
  const std::size_t size = size_of(part.values.dtype());
  std::vector<OwnedRange> owners;
  std::byte* const gathered = gathered_.as<std::byte>().data();
  const auto* const mine = static_cast<const std::byte*>(part.values.raw());
  std::size_t end = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const std::size_t begin = end;
    of_ranks[static_cast<std::size_t>(rank)].for_each_run(
        part.elements, range, [&](const Placement::Run& run) {
          const std::size_t bytes = static_cast<std::size_t>(run.size) * size;
          if (rank == group_->rank())
            std::memcpy(gathered + end,
                        mine + static_cast<std::size_t>(run.local - part.elements.begin) * size,
                        bytes);
          end += bytes;
        });
    if (end > begin)
      owners.push_back({{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)}, rank});
  }
  group_->all_gather({gathered, end}, owners);
}

void PartExchange::unpack(const TensorPart& part, std::span<const Placement> of_ranks,
                          Range range) {
  const std::size_t size = size_of(part.values.dtype());
  const std::byte* from = gathered_.as<std::byte>().data();
  std::byte* const assembled = assembled_.as<std::byte>().data();
  for (const Placement& placement : of_ranks)
    placement.for_each_run(part.elements, range, [&](const Placement::Run& run) {
      const std::size_t bytes = static_cast<std::size_t>(run.size) * size;
      std::memcpy(assembled + static_cast<std::size_t>(run.whole - range.begin) * size, from,
                  bytes);
      from += bytes;
    });
}

}  // namespace hgt
