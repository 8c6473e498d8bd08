#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/stream.h"

namespace hgt {

/// How long the work on a stream waits for communication in each step: on a GPU between events of
/// the stream, on the CPU by the host's clock.
class WaitClock {
 public:
  explicit WaitClock(Stream stream) : stream_(stream) {}

  /// The next step begins. The step two before it must have been taken.
  void begin_step();
  /// Runs `wait`, which waits for communication or, on a GPU, queues work that does.
  template <class Wait>
  void measure(const Wait& wait) {
    begin();
    wait();
    end();
  }
  /// Adds a wait that was measured elsewhere to the current step.
  void add_ns(std::int64_t ns) { step(begun_).ms += static_cast<double>(ns) * 1e-6; }
  /// How long the earliest step that was not taken yet has waited. Blocks until the device has
  /// passed its waits; throws the communicator's error if it fails in that time.
  double take_ms(Communicator& comm);

 private:
  /// On a GPU: events before and after the work that waits.
  struct Events {
    CudaEvent begun, ended;
  };
  struct Step {
    std::vector<Events> events;  ///< only the first `used` are of this step
    std::size_t used = 0;
    std::int64_t begun_ns = 0;
    double ms = 0;
  };
  Step& step(std::int64_t number) { return steps_[static_cast<std::size_t>(number % 2)]; }
  void begin();
  void end();

  const Stream stream_;
  std::array<Step, 2> steps_;
  std::int64_t begun_ = 0, taken_ = 0;  ///< steps
};

}  // namespace hgt
