#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"

#include "spread.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// One collective on one size. Small whole numbers: their sums are exact in any order.
class Trial {
 public:
  Trial(Communicator& comm, const std::string& op, std::span<float> values)
      : comm_(comm), sums_(op == "all_reduce"), values_(values) {}

  void fill() const {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = own(i, comm_.rank());
  }
  void run() const {
    if (sums_)
      comm_.all_reduce_sum(values_);
    else
      comm_.broadcast(std::as_writable_bytes(values_), 0);
  }
  /// Elements that are not what they must be after fill() and run(), of all ranks.
  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      float right = own(i, 0);
      for (int rank = 1; sums_ && rank < comm_.size(); ++rank) right += own(i, rank);
      count += values_[i] != right;
    }
    auto total = static_cast<double>(count);
    comm_.all_reduce_sum(std::span(&total, 1));
    return static_cast<std::int64_t>(total);
  }

 private:
  static float own(std::size_t i, int rank) {
    return static_cast<float>((i + static_cast<std::size_t>(rank)) % 7);
  }
  Communicator& comm_;
  const bool sums_;
  const std::span<float> values_;
};

Json measure(Communicator& comm, const CommBench& spec, std::span<float> values) {
  constexpr int kWarmUps = 2;
  const Trial trial(comm, spec.op, values);
  std::vector<double> us;
  for (std::int64_t i = -kWarmUps; i < spec.repeats; ++i) {
    std::fill(values.begin(), values.end(), 0.0f);  // which sums cannot drive out of range
    comm.barrier();
    const std::int64_t start_ns = now_ns();
    trial.run();
    if (i >= 0) us.push_back(ms_since(start_ns) * 1e3);
  }
  trial.fill();
  trial.run();
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

Json bench_comm(Communicator& comm, const CommBench& spec) {
  const Buffer memory("collective", spec.max_bytes);
  Json sizes = Json::array();
  for (std::int64_t bytes = spec.min_bytes; bytes <= spec.max_bytes; bytes *= 2)
    sizes.push_back(
        measure(comm, spec, memory.as<float>().first(static_cast<std::size_t>(bytes / 4))));
  return {{"bench", "comm"},
          {"op", spec.op},
          {"workers", comm.size()},
          {"repeats", spec.repeats},
          {"sizes", sizes}};
}

}  // namespace hgt
