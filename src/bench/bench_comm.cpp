#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/parallel/range.h"

#include "spread.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// One collective on one size. Small whole numbers make sums exact in any order.
class Trial {
 public:
  /// `values` lie on the queue's device, if there is one.
  Trial(Communicator& comm, const std::string& op, std::span<float> values, const CudaQueue* queue)
      : comm_(comm),
        op_(op),
        values_(values),
        queue_(queue),
        copy_(queue ? values.size() : 0),
        host_(queue ? std::span(copy_) : values) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      const Range part = even_range(std::ssize(values), comm.size(), rank);
      parts_.push_back({part, rank});
      byte_parts_.push_back({{part.begin * 4, part.end * 4}, rank});
    }
  }

  /// Sets all elements to 0, which sums keep in range.
  void clear() {
    std::fill(host_.begin(), host_.end(), 0.0f);
    store();
  }
  void fill() {
    for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = own(i, comm_.rank());
    store();
  }
  void run(int times) const {
    for (int i = 0; i < times; ++i)
      if (op_ == "all_reduce")
        comm_.all_reduce_sum(values_);
      else if (op_ == "reduce_scatter")
        comm_.reduce_scatter_sum(values_, parts_);
      else if (op_ == "all_gather")
        comm_.all_gather(std::as_writable_bytes(values_), byte_parts_);
      else if (op_ == "broadcast")
        comm_.broadcast(std::as_writable_bytes(values_), 0);
    if (queue_) queue_->synchronize();
  }
  /// The number of elements, over all ranks, that are wrong after fill() and run(1).
  std::int64_t wrong() {
    if (queue_) copy(host_.data(), values_.data());
    std::int64_t count = 0;
    const bool sums = op_ == "all_reduce" || op_ == "reduce_scatter";
    for (const auto& [part, owner] : parts_) {
      if (op_ == "reduce_scatter" && owner != comm_.rank()) continue;
      const int source = op_ == "all_gather" ? owner : 0;
      for (auto i = static_cast<std::size_t>(part.begin); std::cmp_less(i, part.end); ++i) {
        float right = own(i, source);
        for (int rank = 1; sums && rank < comm_.size(); ++rank) right += own(i, rank);
        count += host_[i] != right;
      }
    }
    auto total = static_cast<double>(count);
    comm_.all_reduce_sum(std::span(&total, 1));
    return static_cast<std::int64_t>(total);
  }

 private:
  static float own(std::size_t i, int rank) {
    return static_cast<float>((i + static_cast<std::size_t>(rank)) % 7);
  }
  void store() {
    if (queue_) copy(values_.data(), host_.data());
  }
  void copy(void* to, const void* from) const {
    queue_->copy(to, from, values_.size_bytes());
    queue_->synchronize();
  }
  Communicator& comm_;
  const std::string op_;
  std::vector<OwnedRange> parts_, byte_parts_;  ///< an equal part for each rank
  const std::span<float> values_;
  const CudaQueue* const queue_;
  std::vector<float> copy_;
  const std::span<float> host_;
};

/// busbw divided by algbw, as nccl-tests defines them.
double bus_factor(const std::string& op, double ranks) {
  if (op == "broadcast") return 1;
  return (op == "all_reduce" ? 2 : 1) * (ranks - 1) / ranks;
}

Json measure(Communicator& comm, const CommBench& spec, std::span<float> values,
             const CudaQueue* queue) {
  constexpr int kWarmUps = 2;
  const int queued = queue ? 10 : 1;  // so that the host's time for queueing does not count
  Trial trial(comm, spec.op, values, queue);
  std::vector<double> us;
  for (std::int64_t i = -kWarmUps; i < spec.repeats; ++i) {
    trial.clear();
    comm.barrier();
    const std::int64_t start_ns = now_ns();
    trial.run(queued);
    if (i >= 0) us.push_back(ms_since(start_ns) * 1e3 / queued);
  }
  trial.fill();
  trial.run(1);
  const Spread time = spread_of(us);
  const double rate = static_cast<double>(values.size_bytes()) / (time.median * 1e-6);
  return {{"bytes", values.size_bytes()},
          {"count", values.size()},
          {"us", to_json(time)},
          {"algbw_bytes_per_sec", rate},
          {"busbw_bytes_per_sec", rate * bus_factor(spec.op, comm.size())},
          {"wrong", trial.wrong()}};
}

}  // namespace

Json bench_comm(Communicator& comm, const CommBench& spec, const CudaQueue* queue) {
  const Buffer memory("collective", spec.max_bytes, queue ? queue->device() : Device::cpu());
  Json sizes = Json::array();
  for (std::int64_t bytes = spec.min_bytes; bytes <= spec.max_bytes; bytes *= 2)
    sizes.push_back(
        measure(comm, spec, memory.as<float>().first(static_cast<std::size_t>(bytes / 4)), queue));
  return {{"bench", "comm"},
          {"op", spec.op},
          {"workers", comm.size()},
          {"repeats", spec.repeats},
          {"sizes", sizes}};
}

}  // namespace hgt
