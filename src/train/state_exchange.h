#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {

/// For buffers that every rank of a data-parallel group needs whole: exchanges what each rank has
/// read, chunk by chunk, while the ranks read the rest. All ranks make the same collectives, even
/// if they read in different orders.
class StateExchange {
 public:
  static constexpr std::int64_t kElements = 4 << 20;  ///< of a chunk

  /// `buffers`: buffers of all the rank's blocks, in the order in which to exchange them. `plan`
  /// outlives this object.
  StateExchange(const ParameterTable& table, const RankPlan& plan, Communicator& group,
                std::vector<FlatTensor> buffers);
  /// Call it when this rank has read its part of the parameter in the buffer with these values. The
  /// buffer may be one that is not exchanged.
  void read(const Tensor& values, const Parameter& parameter);
  /// Exchanges what is left, even if it was not read, and waits for all.
  void finish();

 private:
  struct Exchanged {
    FlatTensor buffer;
    std::vector<std::int64_t> unread;  ///< elements of parameters, by chunk
  };
  template <class Visit>
  void for_each_chunk(const Parameter& parameter, const Visit& visit) const;
  void start_next();
  const RankPlan& plan_;
  Communicator& group_;
  std::vector<Exchanged> buffers_;
  std::size_t buffer_ = 0, chunk_ = 0;  ///< the next to start
  std::uint64_t ticket_ = 0;            ///< of the last collective started; 0: none
};

}  // namespace hgt
