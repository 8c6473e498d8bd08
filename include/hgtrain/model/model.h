#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/model_spec.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The tokens of one micro-batch, in memory of the model's device, and their place in the run.
///   tokens_BT, targets_BT  [B, T] int32; a target of -100 does not count
///   positions_BT           [B, T] int32, each token's position in its document: 0, 1, 2, ..., and
///                          0 again at the next document. A token sees its own document alone, as
///                          if each document were a sample. Empty: a sample is one document;
///                          context ranks need them.
/// With context ranks, T counts the tokens of a sample that the rank has (context_rows()).
struct MicroBatch {
  std::span<const std::int32_t> tokens_BT;
  std::span<const std::int32_t> targets_BT;
  std::span<const std::int32_t> positions_BT = {};
  std::int64_t batch = 0;              ///< B
  std::int64_t seq_length = 0;         ///< T
  const SampleKey* samples = nullptr;  ///< which samples they are; required for dropout
  double loss_scale = 1.0;  ///< factor of every token's loss in the gradients; without fp16 loss
                            ///< scaling, 1 / global token count
};

/// Forward and hand-derived backward of a Transformer, block by block: 0 is the embedding, 1..L the
/// layers, L+1 the head (final norm, output product and cross-entropy). A block above these has no
/// parameters: it copies the residual stream from its input to its output, and the gradient back
/// (arch/pipeline_split.h).
///
/// The activations of a micro-batch in a range of blocks lie in a slot. Slots are counted through
/// all ranges: those of the first range are 0, 1, ...; those of the second one follow.
///
/// `parameters` (fp32, bf16 or fp16: the type of weights, activations and products) and `gradients`
/// (fp32) are a tensor for each block, on the stream's device: its part of the flat layout. The
/// caller owns them and keeps them as long as the model. A block's values need only be there while
/// a call reads or adds to them. The head of a tied model also reads block 0's and, in training,
/// adds to them; on a stage without block 0 it needs only the token embedding, with which that
/// tensor begins. Blocks of other stages need no tensors. If a stage has no parameters, its tensors
/// still say their type. Blocks that are not used at the same time may share memory. Gradients are
/// added to, never cleared; a model that only evaluates needs none. All activations are allocated
/// in `create`, as arch/activations.h plans them. Not thread-safe. Calls run on the stream: on the
/// CPU they have finished when they return, on a CUDA device they are queued, and what they read
/// must not change until they are done. Bit-identical from run to run. A token or target outside
/// the vocabulary is Error(kData) on the CPU; on a CUDA device it makes the loss NaN.
///
/// If ranks share the layers, each gets the gradients of its part of the parameters. Gradients of
/// parameters that several ranks have whole are equal on all of them, bit for bit, except for those
/// that SharedGradients sums (model/shared_gradients.h).
class Model {
 public:
  struct BlockRange {
    Range blocks = {};       ///< empty: all of the model
    std::int64_t slots = 1;  ///< micro-batches that are held between forward and backward
  };
  struct Options {
    std::int64_t max_batch = 1;
    std::int64_t max_seq_length = 0;
    /// The blocks to compute, ascending: several ranges for a stage of an interleaved pipeline.
    std::vector<BlockRange> ranges = {{}};
    /// If the layers' backward is split: what is held for its second half.
    SplitBackward split = {};
    std::uint64_t seed = 0;  ///< keys dropout
    Recompute recompute = Recompute::kNone;
    /// How many layers recompute, from the first. The results have the same bits, except with
    /// kSelective where GELU was part of a product (ops/linear.h): it is computed separately then,
    /// from values that were rounded to be kept.
    std::int64_t recomputed_layers = 0;
    /// The ranks that share each layer (tensor parallelism); null: this one alone. They make the
    /// same calls with the same batch, and get the same losses. `table` is that of a tensor rank.
    /// The communicator outlives the model.
    Communicator* tensor = nullptr;
    /// Whether the tensor ranks split the rows of the residual stream, of norms and of dropout
    /// (sequence parallelism), each even_range(N, ranks, rank). Sums have the same bits with and
    /// without.
    bool split_rows = false;
    /// The ranks that share each sequence (context parallelism); null: this one alone. They make
    /// the same calls, each with its tokens of the same samples, and get the losses and the
    /// gradients of these: the sums over the ranks are those of the batch. max_seq_length counts
    /// all tokens of a sequence.
    Communicator* context = nullptr;
    std::int64_t logit_rows = 0;  ///< computed at a time, at most; 0: arch/activations.h
  };
  /// Keeps copies of `config` and of what it needs of `table`. Error(kConfig) if the architecture
  /// is not supported or has fewer positions than max_seq_length.
  static std::unique_ptr<Model> create(const ModelConfig& config, const ParameterTable& table,
                                       const std::vector<Tensor>& parameters,
                                       const std::vector<Tensor>& gradients, const Options& options,
                                       Stream stream);
  /// The same for whole flat buffers.
  static std::unique_ptr<Model> create(const ModelConfig& config, const ParameterTable& table,
                                       const Tensor& parameters, const Tensor& gradients,
                                       const Options& options, Stream stream);
  virtual ~Model() = default;
  virtual int num_blocks() const = 0;  ///< of the whole model

  /// Forward of one block; keeps in `slot` what its backward needs. Call blocks in ascending order.
  /// Slot s of a range uses copy s % n of each tensor; n is one of the options' numbers of
  /// micro-batches. The head's forward also computes the gradient of its output product and adds to
  /// the gradients of the output matrix (of a tied embedding), so that the logits never exist as a
  /// whole.
  virtual void forward(int block, int slot, const MicroBatch& batch) = 0;
  /// Backward of one block; adds to its parameters' gradients. Call blocks in descending order. A
  /// tied embedding's gradient is complete after block 0.
  /// If the backward is split, a layer's leaves the gradients of its products' parameters to a
  /// later backward_weights; the other gradients are complete.
  virtual void backward(int block, int slot, const MicroBatch& batch) = 0;
  /// The second half of a layer's split backward.
  virtual void backward_weights(int block, int slot, const MicroBatch& batch) = 0;
  /// The residual stream that enters a block of the slot's range, or the block after the range: [N,
  /// C] for the micro-batch of this size in the slot. If ranks split its rows, it has this rank's,
  /// perhaps none. Stages of a pipeline exchange that of the block after a range: it is the next
  /// stage's input, which its forward and backward read.
  virtual Tensor residual(int block, int slot, const MicroBatch& batch) = 0;
  /// The gradient of the residual stream, with the same shape. Each backward turns the gradient of
  /// a block's output into that of its input, in the same memory.
  virtual Tensor residual_gradient(int slot, const MicroBatch& batch) = 0;
  /// After forward(head): writes the sum of the losses of the slot's valid tokens to `out`, in
  /// device memory.
  virtual void loss_sum(int slot, double* out) const = 0;

  /// Forward of one block without dropout or gradients; blocks as in `forward`. The slot must not
  /// be between a forward and its backward.
  virtual void evaluate_block(int block, int slot, const MicroBatch& batch) = 0;
  /// Calls evaluate_block for all blocks in slot 0, and then loss_sum.
  void evaluate(const MicroBatch& batch, double* out);
};

/// The part of each block in a flat buffer; empty if there is no buffer.
std::vector<Tensor> tensors_by_block(const ParameterTable& table, const Tensor& flat);

}  // namespace hgt
