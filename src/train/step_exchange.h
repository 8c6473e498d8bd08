#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// What host and device send each other about a step, without waiting. The host sends the update's
/// constants and its requests (stop, checkpoint); the device sends losses and norm, which the host
/// may take a step later.
class StepExchange {
 public:
  /// `micros` is the number of micro-batches of all ranks together, `pieces` that of the pieces
  /// of the flat layout: each has its own sum of squares.
  StepExchange(std::int64_t micros, std::int64_t pieces, Stream stream);

  /// What comes back.
  struct Results {
    Update update;
    double stop = 0, checkpoint = 0;  ///< how many ranks request it
  };

  /// Queues: no loss and no square is known.
  void clear_sums();
  /// Where the losses of a micro-batch go, on the device.
  double* loss(std::int64_t micro) const { return sums_.as<double>().data() + micro; }
  Tensor losses() const;   ///< of all micro-batches, there
  Tensor squares() const;  ///< of all pieces, there
  /// Sum over the ranks: the losses and the requests, or the squares too.
  void sum_losses(Communicator& comm) const;
  void sum_losses_and_squares(Communicator& comm) const;
  Update* update() const { return static_cast<Update*>(update_.data()); }  ///< there

  /// Queues: the first part of the update and the requests, to the device.
  void send(const Update& update, bool stop, bool checkpoint);
  /// Queues: the results, on their way back.
  void fetch();
  /// Waits for the earliest fetched results that are not taken yet. Throws the communicator's error
  /// if it failed in that time.
  Results take(Communicator& comm);

 private:
  /// The data of one step in host memory.
  struct Message {
    Update update;
    double control_flags[2];
    Results results;
  };
  struct Slot {
    Buffer memory;
    std::optional<CudaEvent> fetched;  ///< none on the CPU
    Message& message() const { return *static_cast<Message*>(memory.data()); }
  };
  Slot make_slot() const;
  Slot& slot_of(std::int64_t step) { return slots_[static_cast<std::size_t>(step % 2)]; }

  const std::int64_t micros_, pieces_;
  const Stream stream_;
  const Buffer sums_, update_;
  std::array<Slot, 2> slots_;
  std::int64_t sent_ = 0, taken_ = 0;  ///< steps
};

}  // namespace hgt
