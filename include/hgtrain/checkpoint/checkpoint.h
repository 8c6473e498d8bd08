#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/base/error.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/config/parallelism_config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/parallel/shards.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The counters of a run, saved with the weights.
struct TrainingState {
  std::int64_t step = 0;  ///< finished steps
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::int64_t optimizer_steps = 0;  ///< applied updates
  double best_eval_loss = 0;         ///< infinity if there was no evaluation
  std::int64_t best_eval_step = 0;   ///< the step after which it was measured; 0: not known
  std::int64_t evaluations_without_improvement = 0;
  LossScale loss_scale = {};
  /// Digest of what must not change between save and resume (seeds, seq_length, train_batch_size,
  /// data).
  std::uint64_t config_digest = 0;

  bool operator==(const TrainingState&) const = default;
};

/// Flat buffers in host memory, laid out by the parameter table, of which one rank saves and loads
/// `slices`. Each is saved in its own type. `tensor` is the rank's place in its tensor-parallel
/// group, whose ranks have the same slices; the table is that of the group's size.
/// `moments` are the optimizer's state, with the names of optimizer_state(). If the weights have a
/// narrower type than the parameters, model.safetensors holds the rounded parameters, and the
/// parameters themselves are saved with the moments as "master". `ema` is the moving average of the
/// parameters and may be empty; it is saved as ema.safetensors, with the names of
/// model.safetensors.
struct FlatState {
  struct Moment {
    std::string name;
    FlatTensor values;
  };
  FlatTensor parameters;
  std::vector<Moment> moments;
  DType weights_dtype = DType::kF32;
  FlatTensor ema = {};
  std::vector<Slice> slices = {};  ///< ascending
  TensorRank tensor = {};
};

/// Copies the slices into host memory. `memory` holds that memory, which is allocated anew only if
/// its size changes. `copy` is memcpy, or queues a copy from a device.
FlatState copy_slices(
    const FlatState& flat, std::vector<Buffer>& memory,
    const std::function<void(void* to, const void* from, std::size_t bytes)>& copy);

/// What a CheckpointReader reads besides the tensors.
struct LoadedCheckpoint {
  TrainingState state;
  DType weights_dtype = DType::kF32;
  bool has_ema = false;
};

/// Writes the checkpoints of a run folder, <run>/checkpoints/step_00000100/, and the file `latest`
/// next to them. Every rank has a writer, and all save together: each writes its slices, and rank 0
/// does everything else. Nothing else may write there meanwhile.
///
/// save() copies the slices and returns; a thread writes the copy and then prunes to keep_last_n.
/// They write in an order in which a checkpoint is either whole or not there: temporary folder,
/// fsync of the files, the manifest with the hashes last, fsync of the folder, rename, fsync of the
/// parent folder, `latest` by rename. At most one save is under way: the next waits for it. A step
/// that this writer has saved already is not saved again.
class CheckpointWriter {
 public:
  /// Why a state is saved.
  enum class Reason {
    kDue,
    kBest,  ///< only because its evaluation is the best: the checkpoint is removed once a better
            ///< one is saved, also if a later writer with keep_best saves that one
  };
  struct Options {
    /// The ranks that save together, which must have equal options; null: this one alone. The
    /// writer's thread uses it from save() to wait(), so no other thread may meanwhile.
    Communicator* comm = nullptr;
    /// This rank's tensor-parallel group; null: this rank alone. Used like
    /// `comm`.
    Communicator* tensor = nullptr;
    std::string run_dir;
    /// The folder of the checkpoint from which the run starts, of this run or another; "": it
    /// starts at step 0.
    std::string origin;
    /// TrainingState::best_eval_step of the state from which the run starts.
    std::int64_t best_eval_step = 0;
    std::int64_t keep_last_n = 0;  ///< 0 = all
    /// Keeps the checkpoint that evaluated best; `best` names it. If false, and the run folder has
    /// a `best`, that one stays until a better one is saved.
    bool keep_best = false;
    bool async_save = true;  ///< false: save() copies nothing, writes, and then returns
    /// The files besides the weights that transformers reads in these folders are copied into each
    /// checkpoint, with the content they have now. Either may be "".
    std::string tokenizer_folder, model_folder;
    ParallelismConfig layout;  ///< for the manifest
    /// Weights larger than this are split into several files, as HF does.
    std::int64_t max_shard_bytes = 5'000'000'000;
    /// Called by create() if checkpoints of another branch are about to be renamed: the run is on
    /// its branch already, and after a crash the next create() calls it again.
    std::function<void()> on_leaving;
    /// Whether the checkpoint of a step must not be removed at the moment. May be empty.
    std::function<bool(std::int64_t step)> is_in_use;
    /// Called on rank 0 with each checkpoint once it is durable and older ones are removed, on the
    /// thread that wrote it.
    std::function<void(const std::string& path, std::int64_t step)> on_saved;
  };
  /// Moves the run folder to the branch that begins at `origin` (config/run_checkpoints.h). The
  /// move is durable on return; after a crash before that, the folder is on its old branch or on
  /// the new one.
  /// The checkpoints after `origin`, or all of them if it is of another run, are renamed to
  /// step_N.superseded. Removes what a killed run left unfinished.
  static std::unique_ptr<CheckpointWriter> create(const ModelConfig& model,
                                                  const ParameterTable& table,
                                                  const Options& options);
  /// Waits for the save under way.
  virtual ~CheckpointWriter() = default;
  /// The new names of the checkpoints that create() renamed.
  virtual const std::vector<std::string>& left() const = 0;
  /// All checkpoints with such a name, also older ones. If keep_last_n is set, the next save
  /// removes them.
  virtual std::vector<std::string> superseded() const = 0;
  /// If `owner` is given, nothing is copied: `flat` must not change for as long as the writer holds
  /// `owner`.
  virtual void save(const TrainingState& state, const FlatState& flat,
                    std::shared_ptr<const void> owner = nullptr, Reason reason = Reason::kDue) = 0;
  /// Waits for the save under way. Returns nullopt if no save failed since the last call, else the
  /// error of the last one that did, the same on all ranks: kData if a rank could not write, kCheck
  /// if the state has a number that is not finite. The checkpoint before it is intact.
  virtual std::optional<Error> wait() = 0;
  /// Like wait(), but returns at once.
  virtual std::optional<Error> poll_error() = 0;
};

/// Reads the slices of `flat` from a checkpoint folder, and checks the hash of every file and of
/// every range that has elements of them. If the checkpoint is damaged,
/// throws Error(kData), which names the file and the tensor, and in its hint the checkpoint before
/// it. If it is whole but does not fit the table, or its optimizer has another state, throws
/// Error(kConfig). After an error the content of `flat` is undefined. The parameters are read from
/// the masters if the checkpoint has any. All values are rounded to the types of `flat`. `flat.ema`
/// is filled if the checkpoint has an average.
class CheckpointReader {
 public:
  /// Checks everything but the values of the tensors. `table` outlives this object.
  CheckpointReader(const std::string& folder, const ModelConfig& model, const ParameterTable& table,
                   const FlatState& flat);
  ~CheckpointReader();

  /// Called with each parameter that has been read, and the buffer of `flat` that has it.
  using OnRead = std::function<void(const FlatTensor& buffer, const Parameter& parameter)>;
  /// Buffer by buffer: the parameters, the moments, the average.
  void read(const OnRead& on_read = {}) const;
  const LoadedCheckpoint& loaded() const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Reads slices of the weights of an HF model folder (one safetensors file or an index of several;
/// fp32, bf16, fp16) into the flat buffer, rounded to its type. Error(kData) names every tensor
/// that is missing, unexpected or of the wrong shape. If the folder is a checkpoint of hgtrain, its
/// hashes are checked too.
///
/// Names may lack the base model's prefix ("h.0.ln_1.weight"), and buffers of old files (attn.bias,
/// attn.masked_bias, rotary_emb.inv_freq) are ignored, as in transformers. The output matrix of a
/// tied model is ignored if it equals the embedding; if it differs, that is an Error.
///
/// The weights are read from STEM.safetensors; `stem` is "model", or "ema" for the moving average
/// of a checkpoint.
void load_hf_weights(const std::string& folder, const ParameterTable& table,
                     const FlatTensor& parameters, std::span<const Slice> slices,
                     TensorRank tensor = {}, const std::string& stem = "model");
/// The same for all weights.
void load_hf_weights(const std::string& folder, const ParameterTable& table,
                     const Tensor& parameters, const std::string& stem = "model");

}  // namespace hgt
