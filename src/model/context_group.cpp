#include "context_group.h"

#include "hgtrain/base/trace.h"

namespace hgt {
namespace {

constexpr const char* kWait = "wait for context ranks";

enum class Direction { kToAll, kToOwn };

/// Copies a rank's rows, own [N, K, D], to their places in all [B, S, K, D], or from there.
void copy_own(Direction direction, const Tensor& own, const Tensor& all, const SampleRows& tokens,
              const Stream& stream) {
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * size_of(all.dtype());
  };
  const std::int64_t rows = tokens.run_length();
  for (std::int64_t run = 0; run < all.size(0) * tokens.runs; ++run) {
    const Tensor here = own.slice(0, run * rows, (run + 1) * rows);
    auto* const place =
        static_cast<std::byte*>(all.raw()) +
        bytes(tokens.sample_of(run) * all.stride(0) + tokens.begin_of(run) * all.stride(1));
    const std::size_t pitch = bytes(all.stride(1)), own_pitch = bytes(own.stride(0)),
                      width = bytes(all.size(2) * all.size(3));
    if (direction == Direction::kToOwn)
      stream.copy_rows(here.raw(), own_pitch, place, pitch, width, static_cast<std::size_t>(rows));
    else
      stream.copy_rows(place, pitch, here.raw(), own_pitch, width, static_cast<std::size_t>(rows));
  }
}

}  // namespace

std::uint64_t ContextGroup::start_gather(const KeysValues& own, const Tensor& all,
                                         const SampleRows& tokens,
                                         std::span<const OwnedRange> owners,
                                         const Stream& stream) const {
  const KeysValues views = views_of(all);
  copy_own(Direction::kToAll, own.k, views.k, tokens, stream);
  copy_own(Direction::kToAll, own.v, views.v, tokens, stream);
  return comm_->start_all_gather(bytes_of(all), owners);
}

void ContextGroup::finish_gather(std::uint64_t ticket) const {
  const Span span(kWait);
  comm_->wait(ticket);
}

void ContextGroup::sum_own(const Tensor& all, const KeysValues& own, const SampleRows& tokens,
                           std::span<const OwnedRange> owners, const Stream& stream) const {
  {
    const Span span(kWait);
    comm_->reduce_scatter_sum(all, owners);
  }
  const KeysValues views = views_of(all);
  copy_own(Direction::kToOwn, own.k, views.k, tokens, stream);
  copy_own(Direction::kToOwn, own.v, views.v, tokens, stream);
}

}  // namespace hgt
