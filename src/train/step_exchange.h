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
#include "hgtrain/train/rank_usage.h"

namespace hgt {

/// What host and device send each other about a step, without waiting. The host sends the update's
/// constants and its requests (stop, checkpoint); the device sends losses and norm, which the host
/// may take a step later. Here "the device" is where updates happen: the CPU, if the optimizer is
/// offloaded; then the results of a step are there once the step is queued.
class StepExchange {
 public:
  /// `micros` is the number of micro-batches of all ranks together, `pieces` that of the pieces
  /// of the flat layout: each has its own sum of squares. `stream` computes the losses, `updates`
  /// the rest. This rank is `rank` of `ranks`.
  StepExchange(std::int64_t micros, std::int64_t pieces, Stream stream, Stream updates,
               int rank = 0, int ranks = 1);

  /// What a rank requests.
  struct ControlFlags {
    bool stop = false, checkpoint = false;
  };

  /// What the device sends back.
  struct Results {
    Update update;
    double stop = 0, checkpoint = 0;  ///< how many ranks request it
    RankUsage usage;  ///< the largest of the values that the ranks sent with this step
  };

  /// Queues: sets all that is summed to 0.
  void clear_sums();
  /// Where the losses of a micro-batch go, on the device.
  double* loss(std::int64_t micro) const { return sums_.as<double>().data() + micro; }
  Tensor losses() const;   ///< of all micro-batches, on the device
  Tensor squares() const;  ///< of all pieces, on the device
  /// Sum over the ranks the losses, the requests and what each rank uses; the second also the
  /// squares.
  void sum_losses(Communicator& comm) const;
  void sum_losses_and_squares(Communicator& comm) const;
  Update* update() const { return static_cast<Update*>(update_.data()); }  ///< on the device

  /// Queues: the first part of the update, the requests and what this rank uses, to the device.
  void send(const Update& update, ControlFlags requests, const RankUsage& usage = {});
  /// Queues: the results, on their way back.
  void fetch();
  /// Waits for the earliest results that were fetched and not taken yet. Throws the communicator's
  /// error if it failed in that time.
  Results take(Communicator& comm);

 private:
  /// The data of one step in host memory.
  struct Message {
    Update update;
    double control_flags[2];
    RankUsage usage;
    Update result;  ///< the update as it comes back; flags() and usages() follow
  };
  struct Slot {
    Buffer memory;
    std::optional<CudaEvent> fetched;  ///< none on the CPU
    Message& message() const { return *static_cast<Message*>(memory.data()); }
    double* flags() const { return reinterpret_cast<double*>(&message() + 1); }
    RankUsage* usages() const { return reinterpret_cast<RankUsage*>(flags() + 2); }
  };
  /// On the device: the flags, and then a place for what each rank uses, which is 0 on the others.
  double* flags() const { return loss(micros_); }
  RankUsage* usages() const { return reinterpret_cast<RankUsage*>(flags() + 2); }
  std::int64_t returned_bytes() const;  ///< of flags and usages
  Slot make_slot() const;
  Slot& slot_of(std::int64_t step) { return slots_[static_cast<std::size_t>(step % 2)]; }

  const std::int64_t micros_, pieces_;
  const int rank_, ranks_;
  const Stream compute_, stream_;
  const Buffer sums_, update_;
  std::array<Slot, 2> slots_;
  std::int64_t sent_ = 0, taken_ = 0;  ///< steps
};

}  // namespace hgt
