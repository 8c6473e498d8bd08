#pragma once

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
#include "hgtrain/optim/gradient_norm.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/optim/lr_schedule.h"
#include "hgtrain/optim/optimizer.h"
#include "hgtrain/parallel/schedule.h"
#include "hgtrain/train/flat_buffers.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class BatchLoader;
class DeviceBatch;
struct Batch;

/// How a job's model is made.
Model::Options model_options(const Config& config);

/// What a step did. Losses and the gradient norm are those of the whole batch, the same on every
/// rank.
struct StepResult {
  double loss = 0;       ///< mean over the valid tokens of the global batch
  double grad_norm = 0;  ///< before clipping
  double lr = 0;
  double loss_scale = 1;    ///< that this step used
  bool skipped = false;     ///< its gradients were not finite, which fp16 gets over: no update
  double comm_ms = 0;       ///< this rank's compute waited for communication
  double data_wait_ms = 0;  ///< ... for its batch
  std::uint64_t reduced_bytes = 0;    ///< of gradients, given by this rank to sums
  bool stop_requested = false;        ///< by any rank, before the step's sums
  bool checkpoint_requested = false;  ///< likewise
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
    std::int64_t bucket_bytes = std::int64_t{16} << 20;
  };
  Trainer(const Parts& parts, const TrainingState& state);
  ~Trainer();

  /// Trains on the next batch. All ranks call it together. Where the loss or a gradient is not
  /// finite, fp16 skips the update and changes its loss scale; else, and where that cannot shrink
  /// or has not helped for a hundred steps, it throws Error(kGuard) before the update, naming the
  /// step and the first bad tensor: the parameters are then still those of the step before.
  StepResult step();

  /// Mean loss over the first eval_iters * train_batch_size validation samples (all, where there
  /// are fewer), shared out over the ranks. All ranks call it together.
  double evaluate();

  const TrainingState& state() const { return state_; }
  TrainingState& state() { return state_; }
  /// Dataset samples this rank took in the last step, in order.
  const std::vector<std::int64_t>& samples() const { return samples_; }
  /// Tokens of one step, all ranks: the divisor of its loss.
  std::int64_t tokens_per_step() const;

 private:
  const Batch& next_batch();
  void execute(const Action& action);
  MicroBatch micro_batch(int micro) const;
  void update();
  void wait_for_sums();
  double read_losses_and_norm();
  void exchange_losses();
  void change_parameters(const Rate& rate, double scale);
  /// Of so many passes over a flat fp32 buffer.
  Work flat_traffic(int passes) const;
  void skip_update();
  [[noreturn]] void stop_at_bad_tensor() const;

  Parts parts_;
  TrainingState state_;
  LrSchedule lr_schedule_;
  Optimizer optimizer_;
  GradientNorm norm_;
  LossScaler loss_scaler_;
  std::int64_t skipped_in_a_row_ = 0;
  Range micros_;  ///< this rank's of the step's micro-batches
  std::vector<Bucket> buckets_;
  std::vector<Action> schedule_;
  std::unique_ptr<BatchLoader> loader_;

  // Of the step under way.
  std::unique_ptr<DeviceBatch> batch_;
  std::vector<std::int64_t> samples_;
  Buffer loss_sums_;            ///< of this rank's micro-batches, on the device
  std::vector<double> losses_;  ///< per micro-batch of the step, then the two requests
  std::vector<std::uint64_t> tickets_;
  std::uint64_t reduced_before_ = 0;
  StepResult result_;
};

}  // namespace hgt
