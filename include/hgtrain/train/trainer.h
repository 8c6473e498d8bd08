#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/comm/groups.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"
#include "hgtrain/model/shared_gradients.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/optim/lr_schedule.h"
#include "hgtrain/optim/optimizer.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/train/flat_buffers.h"
#include "hgtrain/train/rank_usage.h"
#include "hgtrain/train/unit_slots.h"
#include "hgtrain/wire/control.h"

namespace hgt {

class BatchLoader;
class DeviceBatch;
class ParameterUpdate;
class PipelineExchange;
class StepExchange;
class StepGraphs;
class UnitExchange;
class WaitClock;
struct Batch;
struct Config;

/// The result of a step. The loss and the gradient norm are those of the global batch, the same on
/// every rank.
struct StepResult {
  std::int64_t step = 0;              ///< its number, from 1
  std::int64_t consumed_samples = 0;  ///< by the run, this step included
  std::int64_t queued_ns = 0;         ///< the time at which queue_step() began
  double loss = 0;                    ///< mean over the valid tokens of the global batch
  double grad_norm = 0;               ///< before clipping
  double lr = 0;
  double loss_scale = 1;              ///< the scale that this step used
  bool skipped = false;               ///< fp16 only: no update, because gradients were not finite
  double comm_ms = 0;                 ///< how long this rank's compute waited for communication
  RankUsage usage;                    ///< the largest that the ranks passed to queue_step()
  double data_wait_ms = 0;            ///< how long it waited for its batch
  std::uint64_t reduced_bytes = 0;    ///< of gradients that this rank gave to sums over the ranks
  std::uint64_t sent_bytes = 0;       ///< by this rank, in all its groups; see Communicator
  bool stop_requested = false;        ///< by any rank, before the all-reduces of the step
  bool checkpoint_requested = false;  ///< likewise
  std::vector<std::int64_t> samples;  ///< the dataset's samples that this rank took, in order
};

/// Requests to the training loop, set from any thread. A step shares them with all ranks in its own
/// all-reduces, and clears `checkpoint`.
struct Requests {
  std::atomic<bool> stop{false};
  std::atomic<bool> checkpoint{false};
};

/// The training step of a rank, and the evaluation.
///
/// A step's train_batch_size samples are cut into micro-batches of fixed size, and each group of
/// ranks that holds one copy of the model takes a contiguous range of them; a rank computes its
/// part of the model for them, as the schedule of its plan says. Gradients are summed over all
/// tokens and divided by the global number of tokens. So any layout computes the same step, except
/// that fp32 additions may happen in another order. The losses of the micro-batches are exchanged
/// one by one and added in order, so the reported loss does not depend on the number of
/// data-parallel ranks at all.
class Trainer {
 public:
  /// All references outlive the trainer; all ranks pass equal parts except `plan` and `groups`.
  /// `valid` may be null. Each rank's own parameters have been loaded; the constructor gathers the
  /// others. `state` is that after `state.step` finished steps.
  struct Parts {
    const Config& config;
    const ParameterTable& table;
    const RankPlan& plan;
    const FlatBuffers& buffers;
    const UnitSlots& slots;
    Model& model;  ///< computes with the slots
    Groups groups;
    Stream stream;  ///< the stream of the model and the buffers
    const Dataset& train;
    const Dataset* valid = nullptr;
    Progress& progress;
    Requests& requests;
    /// Updates what is offloaded; needed if the buffers' home is not the stream's device.
    ThreadPool* pool = nullptr;
  };
  Trainer(const Parts& parts, const TrainingState& state);
  ~Trainer();

  /// Trains on the next batch. On the CPU the step is done when this returns; on a GPU it is
  /// queued. All ranks call it together, with the same number of steps queued. The step's own
  /// all-reduce shares `usage`, which is that of an earlier step.
  void queue_step(const RankUsage& usage = {});
  /// Waits for the step that was queued first. If its loss or a gradient was not finite, the update
  /// was skipped, and the parameters are still those of the step before. fp16 training then lowers
  /// its loss scale and continues; it throws Error(kCheck) if the scale cannot shrink, or after a
  /// hundred skipped steps in a row. Other types throw Error(kCheck), which names the step and the
  /// first tensor that is not finite. The result stays valid until the step after the next is
  /// queued.
  const StepResult& finish_step();
  const StepResult& step() {
    queue_step();
    return finish_step();
  }
  std::int64_t queued_steps() const { return state_.step - finished_steps_; }
  /// How many steps may still be queued when the next one is queued. It is 1 on a GPU: results are
  /// then read a step late, and the device never waits for the host. It is 0 if the next step
  /// depends on the result.
  std::int64_t steps_ahead() const;

  /// Mean loss over the first eval_iters * train_batch_size validation samples (all, if there are
  /// fewer), which are divided among the ranks. All ranks call it together, with no step queued.
  double evaluate();

  /// Waits for the collectives that use the flat buffers: what is queued next may read them.
  void wait_for_collectives();

  const TrainingState& state() const { return state_; }
  TrainingState& state() { return state_; }
  /// Tokens of one step over all ranks: the divisor of its loss.
  std::int64_t tokens_per_step() const;

 private:
  const Batch& next_batch();
  /// The result of a step with this number.
  StepResult& result_of(std::int64_t step) { return results_[static_cast<std::size_t>(step % 2)]; }
  StepResult& start_result();
  void execute(const Action& action);
  void reduce(int unit);
  void copy_tied();
  void forward(const Action& action);
  void backward(const Action& action);
  void backward_weights(const Action& action);
  template <class Compute>
  void run_block(const Action& action, const Compute& compute);
  int model_slot(const Action& action) const;
  std::int64_t step_rows() const;  ///< of this rank
  void start_micro_batch(const Action& action, std::int64_t batch_rows);
  const MicroBatch& micro_in(int slot) const { return micros_[static_cast<std::size_t>(slot)]; }
  void prepare_graphs();
  /// How long the host has waited for the ranks that share layers or sequences.
  std::int64_t waited_in_layers_ns() const;
  void update();
  Update constants();
  void skip_update(const StepResult& result);
  void evaluate(const std::vector<Action>& actions, std::int64_t rows);

  Parts parts_;
  const Stream updates_;         ///< the stream of the buffers' home
  TrainingState state_;          ///< counts the steps that were queued
  std::int64_t finished_steps_;  ///< of those, counted likewise
  LrSchedule lr_schedule_;
  LossScaler loss_scaler_;
  const int split_period_;
  std::int64_t skipped_in_a_row_ = 0;
  std::unique_ptr<BatchLoader> loader_;

  std::unique_ptr<DeviceBatch> batch_;
  std::unique_ptr<StepExchange> exchange_;
  std::unique_ptr<StepGraphs> graphs_;
  std::unique_ptr<ParameterUpdate> update_;
  std::unique_ptr<WaitClock> clock_;
  std::unique_ptr<UnitExchange> units_;
  std::unique_ptr<PipelineExchange> pipeline_;
  std::optional<SharedGradients> shared_gradients_;  ///< none without tensor ranks
  Buffer loss_sums_;  ///< on the device: of the current micro-batch, or of an evaluation's round

  std::array<StepResult, 2> results_;  ///< of the last two steps
  std::vector<MicroBatch> micros_;     ///< in each slot
  RankUsage usage_;                    ///< to share in the next step
  std::uint64_t reduced_before_ = 0;
  double captured_loss_scale_ = 0;
};

}  // namespace hgt
