#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/error.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The counters of a run, saved with the weights.
struct TrainingState {
  std::int64_t step = 0;  ///< finished steps
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::int64_t optimizer_steps = 0;  ///< applied updates
  double best_eval_loss = 0;         ///< infinity where there was none
  std::int64_t best_eval_step = 0;   ///< after which it was measured; 0: not known
  std::int64_t evaluations_without_improvement = 0;
  LossScale loss_scale = {};
  /// Of what must not change between save and resume (model, seed, data order).
  std::uint64_t config_digest = 0;

  bool operator==(const TrainingState&) const = default;
};

/// Flat buffers in host memory, laid out by the parameter table, each of which is saved in its own
/// type; `moments` are the optimizer's state, by the names of optimizer_state(). Where the weights
/// are of a narrower type than the parameters, model.safetensors holds the parameters rounded, and
/// the parameters themselves lie with the moments as "master". `ema`, the moving average of the
/// parameters, may be none; it is ema.safetensors, under the names of model.safetensors.
struct FlatState {
  struct Moment {
    std::string name;
    Tensor values;
  };
  Tensor parameters;
  std::vector<Moment> moments;
  DType weights_dtype = DType::kF32;
  Tensor ema = {};
};

/// What a checkpoint was, but for the tensors.
struct LoadedCheckpoint {
  TrainingState state;
  DType weights_dtype = DType::kF32;
  bool has_ema = false;
};

/// Writes checkpoints of a run folder: <run>/checkpoints/step_00000100/, `latest` beside them. One
/// rank has one; nobody else may write there meanwhile.
///
/// save() copies the state and returns; a thread writes, in the order that makes a checkpoint exist
/// or not (temporary folder, fsync of files, manifest with hashes last, fsync folder, rename, fsync
/// parent, `latest` by rename), then prunes to keep_last_n. One save is under way at most: the next
/// waits for it. A step already saved by this writer is not saved again.
class CheckpointWriter {
 public:
  /// Why a state is saved.
  enum class Reason {
    kDue,
    kBest,  ///< only because its evaluation is the best: removed once a better one is saved, also
            ///< by a later writer with keep_best
  };
  struct Options {
    std::string run_dir;
    /// The folder of the checkpoint that the run starts from, here or elsewhere; "": step 0.
    std::string origin;
    /// Of the state it starts from: TrainingState::best_eval_step.
    std::int64_t best_eval_step = 0;
    std::int64_t keep_last_n = 0;  ///< 0 = all
    bool keep_best = false;        ///< `best` names the checkpoint that evaluated best, which stays
    bool async_save = true;        ///< false: save() returns when it is written, and copies nothing
    /// What transformers reads from these beside the weights goes in, as it is now; may be "".
    std::string tokenizer_folder, model_folder;
    ParallelismConfig layout;  ///< for the manifest
    /// Larger weights are split into files, as HF does.
    std::int64_t max_shard_bytes = 5'000'000'000;
    /// Told of each checkpoint, on the thread that wrote it, once it is durable.
    std::function<void(const std::string& path, std::int64_t step)> on_saved;
  };
  /// Moves the run folder to the branch that begins at `origin` (config/run_checkpoints.h), durable
  /// on return: a crash before that leaves the branch it was on. Later checkpoints, and all of them
  /// if the branch begins elsewhere, become step_N.superseded. Removes what a killed run left
  /// unfinished.
  static std::unique_ptr<CheckpointWriter> create(const ModelConfig& model,
                                                  const ParameterTable& table,
                                                  const Options& options);
  /// Waits for the save under way.
  virtual ~CheckpointWriter() = default;
  /// The names that create() gave the checkpoints which it set aside.
  virtual const std::vector<std::string>& left() const = 0;
  /// Those and the ones that were aside before: with keep_last_n the next save removes them.
  virtual std::vector<std::string> superseded() const = 0;
  /// Where `owner` is given, it keeps `flat` as it is for as long as it is held, and nothing is
  /// copied.
  virtual void save(const TrainingState& state, const FlatState& flat,
                    std::shared_ptr<const void> owner = nullptr, Reason reason = Reason::kDue) = 0;
  /// Waits for the save under way. What became of the saves since the last call: nullopt, or the
  /// error of the last one that failed: kData if it could not be written, kGuard if the state has a
  /// number that is not finite. The checkpoint before it is intact.
  virtual std::optional<Error> wait() = 0;
  /// The same without waiting.
  virtual std::optional<Error> poll_error() = 0;
};

/// Reads a checkpoint folder into `flat`, checking every hash. Error(kData) names file and tensor
/// where it is damaged, and the checkpoint before it in the hint; Error(kConfig) says where it is
/// whole but does not fit the table, or is of an optimizer with other state. `flat` is then in no
/// defined state. Parameters come from the masters where it has any, and all is rounded to the
/// types here, whatever those there; `flat.ema` is filled where it has an average.
LoadedCheckpoint load_checkpoint(const std::string& folder, const ModelConfig& model,
                                 const ParameterTable& table, const FlatState& flat);

/// Reads the weights of an HF model folder (one safetensors file or an index of several; fp32,
/// bf16, fp16) into the flat buffer, rounded to its type. Error(kData) names every missing,
/// unexpected or misshaped tensor. Where the folder is one of our checkpoints, its hashes are
/// checked too.
///
/// As in transformers, names may lack the base model's prefix ("h.0.ln_1.weight"), buffers of old
/// files (attn.bias, attn.masked_bias, rotary_emb.inv_freq) are passed over, and so is the output
/// matrix of a tied model where it equals the embedding; where it does not, that is an Error.
///
/// The weights are those of STEM.safetensors: "model", or "ema" for a checkpoint's moving average.
void load_hf_weights(const std::string& folder, const ModelConfig& model,
                     const ParameterTable& table, const Tensor& parameters,
                     const std::string& stem = "model");

}  // namespace hgt
