#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hgtrain/base/trace.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The ranks that share each layer of a model, as its blocks see them. By default, one.
///
/// The residual stream has N rows. Either every rank has all of them, or the ranks split them
/// (sequence parallelism): the rows that a rank has are its own, [n, ...], and are neighbours in
/// all rows, [N, ...]. Blocks speak of the two in the same way in both cases. All tensors are
/// contiguous.
class TensorGroup {
 public:
  TensorGroup() = default;
  /// The communicator outlives this object; null: one rank.
  explicit TensorGroup(Communicator* comm, bool split_rows = false)
      : comm_(comm != nullptr && comm->size() > 1 ? comm : nullptr),
        split_rows_(comm_ != nullptr && split_rows) {}

  int rank() const { return comm_ ? comm_->rank() : 0; }
  int size() const { return comm_ ? comm_->size() : 1; }
  bool split_rows() const { return split_rows_; }

  /// Which of N rows a rank has.
  Range rows_of(int rank, std::int64_t all) const {
    return split_rows_ ? even_range(all, size(), rank) : Range{0, all};
  }
  /// This rank's rows of `all`.
  Tensor own_rows(const Tensor& all) const {
    const Range own = rows_of(rank(), all.size(0));
    return all.slice(0, own.begin, own.end);
  }
  /// Where to compute all rows of a result whose own rows go to `own`: in `own` itself or, if rows
  /// are split, in `scratch`.
  Tensor place_for_all(const Tensor& own, const Tensor& scratch) const {
    return split_rows_ ? scratch : own;
  }
  /// All rows, given each rank's own: `own` itself or, if rows are split, `scratch`, into which
  /// they are gathered. `own` may already lie in `scratch`.
  Tensor gather_rows(const Tensor& own, const Tensor& scratch, Stream stream) const {
    if (!split_rows_) return own;
    const Tensor place = own_rows(scratch);
    if (place.raw() != own.raw()) stream.copy(place.raw(), own.raw(), own.bytes());
    const Span span(kWait);
    comm_->all_gather(bytes_of(scratch),
                      parts(scratch.size(0), static_cast<std::int64_t>(scratch.bytes())));
    return scratch;
  }
  /// The sum over the ranks of this rank's rows. `all` is overwritten, and the result lies in it.
  Tensor sum_rows(const Tensor& all) const { return finish_sum(all, start_sum(all)); }
  /// The same in two halves. Between the two, no computation may use `all`.
  std::uint64_t start_sum(const Tensor& all) const {
    if (split_rows_) return comm_->start_reduce_scatter_sum(all, parts(all.size(0), all.numel()));
    return comm_ ? comm_->start_all_reduce_sum(all) : 0;
  }
  Tensor finish_sum(const Tensor& all, std::uint64_t ticket) const {
    if (!comm_) return all;
    const Span span(kWait);
    comm_->wait(ticket);
    return own_rows(all);
  }
  /// The same, put into `own`, which may be `all`.
  void sum_rows(const Tensor& all, const Tensor& own, Stream stream) const {
    const Tensor sum = sum_rows(all);
    if (sum.raw() != own.raw()) stream.copy(own.raw(), sum.raw(), own.bytes());
  }

  /// A term that must be added to a sum only once: x on rank 0, no tensor on the others.
  Tensor once(const Tensor& x) const { return rank() == 0 ? x : Tensor(); }
  /// x [size(), ...]: row r becomes rank r's.
  void gather(const Tensor& x) const {
    if (!comm_) return;
    const auto bytes = static_cast<std::int64_t>(x.bytes()), row = bytes / size();
    std::vector<OwnedRange> owners;
    for (int rank = 0; rank < size(); ++rank)
      owners.push_back({{rank * row, (rank + 1) * row}, rank});
    const Span span(kWait);
    comm_->all_gather(bytes_of(x), owners);
  }

 private:
  static constexpr const char* kWait = "wait for tensor ranks";

  /// Which of `units` units, of which N rows consist, each rank has.
  std::vector<OwnedRange> parts(std::int64_t rows, std::int64_t units) const {
    std::vector<OwnedRange> out;
    for (int rank = 0; rank < size(); ++rank) {
      const Range own = rows_of(rank, rows);
      out.push_back({{own.begin * (units / rows), own.end * (units / rows)}, rank});
    }
    return out;
  }

  Communicator* comm_ = nullptr;
  bool split_rows_ = false;
};

}  // namespace hgt
