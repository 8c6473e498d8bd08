#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/config/config.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/optim/lr_schedule.h"
#include "hgtrain/optim/optimizer.h"
#include "hgtrain/parallel/schedule.h"
#include "hgtrain/train/flat_buffers.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class BatchLoader;
class DeviceBatch;
class StepExchange;
class StepGraphs;
struct Batch;

/// How a job's model is made.
Model::Options model_options(const Config& config);

/// How many gradients are summed at a time while backward goes on: on GPUs as in
/// Megatron-LM, as small sums do not reach the rate of large ones; on the CPU 16 MiB.
std::int64_t default_bucket_elements(Device device, int ranks);

/// What a step did. Losses and the gradient norm are those of the whole batch, the same on every
/// rank.
struct StepResult {
  std::int64_t step = 0;              ///< its number, from 1
  std::int64_t consumed_samples = 0;  ///< by the run, after it
  std::int64_t queued_ns = 0;         ///< when it began to be queued
  double loss = 0;                    ///< mean over the valid tokens of the global batch
  double grad_norm = 0;               ///< before clipping
  double lr = 0;
  double loss_scale = 1;    ///< that this step used
  bool skipped = false;     ///< its gradients were not finite, which fp16 gets over: no update
  double comm_ms = 0;       ///< this rank's compute waited for communication
  double data_wait_ms = 0;  ///< ... for its batch
  std::uint64_t reduced_bytes = 0;    ///< of gradients, given by this rank to sums
  bool stop_requested = false;        ///< by any rank, before the step's sums
  bool checkpoint_requested = false;  ///< likewise
  std::vector<std::int64_t> samples;  ///< of the dataset that this rank took, in order
};

/// Wishes of the outside, set from any thread. A step takes them to all ranks with its own sums,
/// and clears `checkpoint`.
struct Requests {
  std::atomic<bool> stop{false};
  std::atomic<bool> checkpoint{false};
};

/// The training step of one data-parallel rank, and the evaluation.
///
/// A step's train_batch_size samples are cut into micro-batches of fixed size, each rank takes a
/// contiguous range of them, and gradients are sums over all tokens divided by their global number:
/// so any number of ranks computes the same step but for the order of fp32 additions. The losses of
/// micro-batches are exchanged one by one and added in order, so a reported loss does not depend on
/// the split at all.
class Trainer {
 public:
  /// All references outlive it; every rank passes the same but `comm`. `valid` may be null. The
  /// state is that after `state.step` finished steps.
  struct Parts {
    const Config& config;
    const ParameterTable& table;
    const FlatBuffers& buffers;
    Model& model;
    Communicator& comm;
    Stream stream;  ///< of the model and the buffers
    const Dataset& train;
    const Dataset* valid = nullptr;
    Progress& progress;
    Requests& requests;
    std::int64_t bucket_elements = 0;  ///< of a sum of gradients; 0: what suits the device
  };
  Trainer(const Parts& parts, const TrainingState& state);
  ~Trainer();

  /// Trains on the next batch: on the CPU it is done when this returns, on a GPU it is queued. All
  /// ranks call it together, with the same number of steps queued.
  void queue_step();
  /// Waits for the step that was queued first. Where its loss or a gradient was not finite, fp16
  /// has skipped the update and changes its loss scale; else, and where that cannot shrink or has
  /// not helped for a hundred steps, it throws Error(kGuard), naming the step and the first bad
  /// tensor: the parameters are then still those of the step before. What it gives stays until the
  /// step after the next is queued.
  const StepResult& finish_step();
  const StepResult& step() {
    queue_step();
    return finish_step();
  }
  std::int64_t queued_steps() const { return queued_; }
  /// How many steps may be queued when the next one is: 1 on a GPU, where results are then read a
  /// step late and the device never waits for the host; 0 where the next step depends on them.
  std::int64_t steps_ahead() const;

  /// Mean loss over the first eval_iters * train_batch_size validation samples (all, where there
  /// are fewer), shared out over the ranks. All ranks call it together, with no step queued.
  double evaluate();

  const TrainingState& state() const { return state_; }
  TrainingState& state() { return state_; }
  /// Tokens of one step, all ranks: the divisor of its loss.
  std::int64_t tokens_per_step() const;

 private:
  const Batch& next_batch();
  /// Of a step, by its number.
  StepResult& result_of(std::int64_t step) { return results_[static_cast<std::size_t>(step % 2)]; }
  StepResult& start_result();
  void execute(const Action& action);
  void forward(const Action& action);
  MicroBatch micro_batch(int micro);
  void update();
  void sum_losses();
  void change_parameters();
  Update constants();
  Work update_traffic() const;
  void skip_update(const StepResult& result);
  [[noreturn]] void stop_at_bad_tensor(const StepResult& result) const;

  Parts parts_;
  TrainingState state_;
  LrSchedule lr_schedule_;
  Optimizer optimizer_;
  LossScaler loss_scaler_;
  std::int64_t skipped_in_a_row_ = 0;
  Range micros_;  ///< this rank's of the step's micro-batches
  std::vector<Bucket> buckets_;
  std::vector<Action> schedule_;
  std::unique_ptr<BatchLoader> loader_;

  std::unique_ptr<DeviceBatch> batch_;
  std::unique_ptr<StepExchange> exchange_;
  std::unique_ptr<StepGraphs> graphs_;
  Buffer loss_sum_, squares_;  ///< of the micro-batch under way, of the gradients; on the device

  std::array<StepResult, 2> results_;  ///< of the last two steps
  std::int64_t queued_ = 0;            ///< of them not finished
  MicroBatch micro_;                   ///< under way
  std::uint64_t reduced_before_ = 0;
  double captured_loss_scale_ = 0;
};

}  // namespace hgt
