#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/cuda_queue.h"

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
        sums_(op == "all_reduce"),
        values_(values),
        queue_(queue),
        copy_(queue ? values.size() : 0),
        host_(queue ? std::span(copy_) : values) {}

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
      if (sums_)
        comm_.all_reduce_sum(values_);
      else
        comm_.broadcast(std::as_writable_bytes(values_), 0);
    if (queue_) queue_->synchronize();
  }
  /// The number of elements, over all ranks, that are wrong after fill() and run(1).
  std::int64_t wrong() {
    if (queue_) copy(host_.data(), values_.data());
    std::int64_t count = 0;
    for (std::size_t i = 0; i < host_.size(); ++i) {
      float right = own(i, 0);
      for (int rank = 1; sums_ && rank < comm_.size(); ++rank) right += own(i, rank);
      count += host_[i] != right;
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
  const bool sums_;
  const std::span<float> values_;
  const CudaQueue* const queue_;
  std::vector<float> copy_;
  const std::span<float> host_;
};

Json measure(Communicator& comm, const CommBench& spec, std::span<float> values,
             const CudaQueue* queue) {
  constexpr int kWarmUps = 2;
  const int queued = queue ? 10 : 1;  // so that the host's part does not count
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
  const double n = comm.size();
  const double rate = static_cast<double>(values.size_bytes()) / (time.median * 1e-6);
  return {{"bytes", values.size_bytes()},
          {"count", values.size()},
          {"us", to_json(time)},
          {"algbw_bytes_per_sec", rate},
          {"busbw_bytes_per_sec", spec.op == "all_reduce" ? rate * 2 * (n - 1) / n : rate},
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
