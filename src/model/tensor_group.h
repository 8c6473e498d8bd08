#pragma once

#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The ranks that share each layer of a model, as its blocks see them. By default, one.
class TensorGroup {
 public:
  TensorGroup() = default;
  /// The communicator outlives this object; null: one rank.
  explicit TensorGroup(Communicator* comm)
      : comm_(comm != nullptr && comm->size() > 1 ? comm : nullptr) {}

  int rank() const { return comm_ ? comm_->rank() : 0; }
  int size() const { return comm_ ? comm_->size() : 1; }

  /// x = the sum of all ranks' x.
  void sum(const Tensor& x) const {
    if (comm_) comm_->all_reduce_sum(x);
  }
  /// What must be added once to a sum: one rank gives it, the others give no tensor.
  Tensor once(const Tensor& x) const { return rank() == 0 ? x : Tensor(); }
  /// x [size(), ...]: row r becomes that of rank r.
  void gather(const Tensor& x) const {
    if (!comm_) return;
    const auto row = static_cast<std::int64_t>(x.bytes()) / size();
    std::vector<OwnedRange> rows;
    for (int rank = 0; rank < size(); ++rank)
      rows.push_back({{rank * row, (rank + 1) * row}, rank});
    comm_->all_gather(bytes_of(x), rows);
  }

 private:
  Communicator* comm_ = nullptr;
};

}  // namespace hgt
