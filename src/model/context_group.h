#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/base/sample_rows.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The keys and values of an attention, [B, S, K, D] each.
struct KeysValues {
  Tensor k, v;
};

/// The ranks that share each sequence (parallel/context_split.h), as a layer sees them. By default,
/// one. `all` are the keys and values of all S tokens, which lie side by side in [B, S, 2 K, D],
/// and `owners` say which rank has what of that; `own` are the rank's rows [N, K, D].
class ContextGroup {
 public:
  ContextGroup() = default;
  /// The communicator outlives this object; null: one rank.
  explicit ContextGroup(Communicator* comm)
      : comm_(comm != nullptr && comm->size() > 1 ? comm : nullptr) {}

  int rank() const { return comm_ ? comm_->rank() : 0; }
  int size() const { return comm_ ? comm_->size() : 1; }

  /// all = each rank's own, once finish_gather has returned. `owners` count bytes.
  std::uint64_t start_gather(const KeysValues& own, const Tensor& all, const SampleRows& tokens,
                             std::span<const OwnedRange> owners, const Stream& stream) const;
  void finish_gather(std::uint64_t ticket) const;
  /// own = this rank's part of the sum of all ranks' `all`, which is overwritten. `owners` count
  /// values.
  void sum_own(const Tensor& all, const KeysValues& own, const SampleRows& tokens,
               std::span<const OwnedRange> owners, const Stream& stream) const;

  static KeysValues views_of(const Tensor& all) {
    const std::int64_t heads = all.size(2) / 2;
    return {all.slice(2, 0, heads), all.slice(2, heads, 2 * heads)};
  }

 private:
  Communicator* comm_ = nullptr;
};

}  // namespace hgt
