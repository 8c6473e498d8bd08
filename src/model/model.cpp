#include "hgtrain/model/model.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/embedding.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/parallel/context_split.h"

#include "activations.h"
#include "head.h"
#include "layer.h"
#include "rope_table.h"

namespace hgt {
namespace {

DType dtype_of(const std::vector<Tensor>& blocks) {
  const auto here = std::ranges::find_if(blocks, [](const Tensor& block) { return bool(block); });
  return here == blocks.end() ? blocks.front().dtype() : here->dtype();
}

std::vector<ActivationSizes> sizes_of(const Model::Options& options, DType dtype,
                                      const TensorGroup& group, std::int64_t context_size) {
  std::vector<ActivationSizes> out;
  for (const auto& [blocks, slots] : options.ranges)
    out.push_back({options.max_batch, options.max_seq_length, slots, dtype, options.recompute,
                   options.recomputed_layers, blocks, group.size(), options.split, context_size,
                   group.rank(), group.split_rows(), options.logit_rows});
  return out;
}

/// The sizes of a tensor rank's part. Its part of the vocabulary may be padded.
ModelConfig part_of(const ModelConfig& config, const ParameterTable& table, int ranks) {
  ModelConfig out = tensor_part(config, ranks);
  out.vocab_size = table.vocabulary_rows();
  return out;
}

class TransformerModel final : public Model {
 public:
  TransformerModel(const ModelConfig& config, const ParameterTable& table,
                   const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
                   const Options& options, Stream stream)
      : group_(options.tensor, options.split_rows),
        context_(options.context),
        config_(part_of(config, table, group_.size())),
        vocabulary_{group_.rank() * config_.vocab_size, config.vocab_size},
        options_(options),
        stream_(stream),
        weights_(bind_weights(config_, table, parameters)),
        gradients_(gradients.empty() ? Weights{} : bind_weights(config_, table, gradients)),
        memory_(config_, sizes_of(options, dtype_of(parameters), group_, context_.size()),
                stream.device()) {
    for (const ActivationSizes& sizes :
         sizes_of(options, dtype_of(parameters), group_, context_.size()))
      slots_.resize(slots_.size() + static_cast<std::size_t>(sizes.period()),
                    {sizes.layers(config_).begin, std::nullopt});
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i)
      layers_.emplace_back(config_, i,
                           i < options.recomputed_layers ? options.recompute : Recompute::kNone,
                           group_, context_);
    if (family_of(config_).rope) rope_ = RopeTable(config_, options.max_seq_length, stream);
  }

  int num_blocks() const override { return head() + 1; }

  void forward(int block, int slot, const MicroBatch& batch) override {
    if (passes_through(block)) return pass_through(block, slot, batch);
    forward_block(block, slot, batch, prepare(slot, batch, true));
  }

  void backward(int block, int slot, const MicroBatch& batch) override {
    if (passes_through(block)) return;
    const Pass pass = prepare(slot, batch, true);
    const Tensor d = memory(slot).get("d_hidden");
    if (block == 0) {
      drop_embedded(d, pass);
      const Tensor all = group_.gather_rows(d, memory(slot).get("branch"), stream_);
      embedding_bwd(ids(batch.tokens_BT, batch), all.split(0, pass.batch), gradients_.tokens,
                    positions(gradients_, pass), stream_, pass.position_ids, vocabulary_.first);
    } else if (block == head()) {
      head_bwd(weights_, gradients_, input(block, slot), HeadState(memory(slot), group_), d,
               stream_);
    } else {
      layer_backward(block, slot, pass, d);
    }
  }

  void backward_weights(int block, int slot, const MicroBatch& batch) override {
    if (passes_through(block)) return;
    reserve(slot, batch);
    const auto i = static_cast<std::size_t>(block - 1);
    layers_[i].backward_weights(gradients_.layers[i], state(block, slot, true),
                                LayerScratch(memory(slot)), {memory(slot), own_layer(block, slot)},
                                stream_);
  }

  Tensor residual(int block, int slot, const MicroBatch& batch) override {
    reserve(slot, batch);
    return input(block, slot);
  }
  Tensor residual_gradient(int slot, const MicroBatch& batch) override {
    reserve(slot, batch);
    return memory(slot).get("d_hidden");
  }

  void loss_sum(int slot, double* out) const override {
    sum(memory(slot).get("losses"), Tensor(out, {1}, DType::kF64, stream_.device()), stream_);
  }

  void evaluate_block(int block, int slot, const MicroBatch& batch) override {
    if (passes_through(block)) return pass_through(block, slot, batch);
    forward_block(block, slot, batch, prepare(slot, batch, false));
  }

 private:
  int head() const { return static_cast<int>(config_.num_hidden_layers) + 1; }

  bool passes_through(int block) const { return block > head(); }
  /// Copies, because the next input may arrive while the output is still being sent.
  void pass_through(int block, int slot, const MicroBatch& batch) {
    const Tensor from = residual(block, slot, batch), to = residual(block + 1, slot, batch);
    stream_.copy(to.raw(), from.raw(), from.bytes());
  }

  /// Checks the batch, and that there is memory for it in the slot.
  void reserve(int slot, const MicroBatch& batch) {
    const std::int64_t rows = batch.batch * batch.seq_length;
    if (slot < 0 || slot >= std::ssize(slots_) || batch.batch < 1 || batch.seq_length < 1 ||
        batch.batch > options_.max_batch || whole_length(batch) > options_.max_seq_length ||
        static_cast<std::int64_t>(batch.tokens_BT.size()) != rows ||
        static_cast<std::int64_t>(batch.targets_BT.size()) != rows ||
        ((context_.size() > 1 || !batch.positions_BT.empty()) &&
         static_cast<std::int64_t>(batch.positions_BT.size()) != rows))
      throw Error(
          ErrorKind::kInternal,
          fmt::format("a micro-batch of {} x {} ({} tokens, {} targets) in slot {} does not "
                      "fit a model made for {} x {} and {} slots",
                      batch.batch, batch.seq_length, batch.tokens_BT.size(),
                      batch.targets_BT.size(), slot, options_.max_batch, options_.max_seq_length,
                      slots_.size()));
    std::optional<BatchActivations>& memory = slots_[static_cast<std::size_t>(slot)].batch;
    if (!memory || !memory->is_for(batch.batch, whole_length(batch)))
      memory.emplace(memory_, slot, batch.batch, whole_length(batch));
  }
  /// The length of a whole sequence, of which context ranks have a part each.
  std::int64_t whole_length(const MicroBatch& batch) const {
    return batch.seq_length * context_.size();
  }

  /// Makes the pass for a batch.
  Pass prepare(int slot, const MicroBatch& batch, bool training) {
    reserve(slot, batch);
    Pass pass;
    pass.batch = batch.batch;
    pass.length = batch.seq_length;
    pass.position_ids = ids(batch.positions_BT, batch);
    pass.training = training;
    const std::int64_t whole = whole_length(batch);
    pass.tokens = context_rows(whole, context_.size(), context_.rank());
    pass.dropout = {0, options_.seed, batch.samples, 0, pass.tokens};
    pass.dropout.rows.first = group_.rows_of(group_.rank(), pass.rows()).begin;
    if (const Tensor all = memory(slot).find("keys_values")) name_owners(all, pass);
    if (family_of(config_).rope) {
      rope_.prepare(whole, stream_);
      pass.cos = rope_.cos(0, whole);
      pass.sin = rope_.sin(0, whole);
    }
    return pass;
  }

  /// [B, T], or no tensor if there are none.
  Tensor ids(std::span<const std::int32_t> values, const MicroBatch& batch) const {
    if (values.empty()) return {};
    return Tensor(const_cast<std::int32_t*>(values.data()), {batch.batch, batch.seq_length},
                  DType::kI32, stream_.device());
  }
  Tensor positions(const Weights& weights, const Pass& pass) const {
    return weights.positions ? weights.positions.slice(0, 0, pass.length * context_.size())
                             : Tensor();
  }
  /// Who has what of keys_values, which is known for the last size.
  void name_owners(const Tensor& keys_values, Pass& pass) {
    const std::int64_t batch = keys_values.size(0), length = keys_values.size(1);
    const auto bytes = static_cast<std::int64_t>(keys_values.bytes());
    if (byte_owners_.empty() || byte_owners_.back().elements.end != bytes) {
      const auto owners = [&](std::int64_t elements) {
        return context_owners(batch, length, context_.size(), elements / (batch * length));
      };
      byte_owners_ = owners(bytes);
      value_owners_ = owners(keys_values.numel());
    }
    pass.byte_owners = byte_owners_;
    pass.value_owners = value_owners_;
  }

  const BatchActivations& memory(int slot) const {
    return *slots_[static_cast<std::size_t>(slot)].batch;
  }
  /// The number of a block's layer in the slot's range.
  std::int64_t own_layer(int block, int slot) const {
    return block - 1 - slots_[static_cast<std::size_t>(slot)].first_layer;
  }
  LayerState state(int block, int slot, bool backward = false) const {
    return {memory(slot), own_layer(block, slot), backward};
  }
  /// The residual stream that enters a block.
  Tensor input(int block, int slot) const {
    const bool is_first = own_layer(block, slot) <= 0;
    return is_first ? memory(slot).get("embedded") : state(block - 1, slot).output;
  }

  void drop_embedded(const Tensor& x, const Pass& pass) {
    if (!pass.training || config_.embd_pdrop == 0) return;
    Dropout options = pass.dropout;
    options.probability = static_cast<float>(config_.embd_pdrop);
    dropout(x, options, x, stream_);
  }

  void embed(int slot, const MicroBatch& batch, const Pass& pass) {
    const Tensor out = input(1, slot);
    const Tensor all = group_.place_for_all(out, memory(slot).get("branch"));
    embedding_fwd(ids(batch.tokens_BT, batch), weights_.tokens,
                  group_.once(positions(weights_, pass)), all.split(0, pass.batch), stream_,
                  pass.position_ids, vocabulary_);
    group_.sum_rows(all, out, stream_);
    drop_embedded(out, pass);
  }

  void forward_block(int block, int slot, const MicroBatch& batch, const Pass& pass) {
    if (block == 0)
      embed(slot, batch, pass);
    else if (block == head())
      head_forward(slot, batch, pass, pass.training ? &gradients_ : nullptr);
    else
      layer_forward(block, slot, pass);
  }

  void layer_forward(int block, int slot, const Pass& pass) {
    const std::size_t i = static_cast<std::size_t>(block - 1);
    layers_[i].forward(weights_.layers[i], input(block, slot), pass, state(block, slot),
                       LayerScratch(memory(slot)), stream_);
  }

  void layer_backward(int block, int slot, const Pass& pass, const Tensor& d) {
    const std::size_t i = static_cast<std::size_t>(block - 1);
    const Tensor x = input(block, slot);
    const LayerState kept = state(block, slot, true);
    const LayerScratch scratch(memory(slot));
    layers_[i].recompute(weights_.layers[i], x, pass, kept, scratch, stream_);
    layers_[i].backward(weights_.layers[i], gradients_.layers[i], x, pass, kept, scratch,
                        {memory(slot), own_layer(block, slot)}, d, stream_);
  }

  void head_forward(int slot, const MicroBatch& batch, const Pass& pass, const Weights* gradients) {
    head_fwd(config_, weights_, gradients, input(head(), slot),
             ids(batch.targets_BT, batch).reshaped({pass.rows()}),
             static_cast<float>(batch.loss_scale), HeadState(memory(slot), group_), group_,
             vocabulary_, stream_);
  }

  const TensorGroup group_;
  const ContextGroup context_;
  const ModelConfig config_;         ///< of this rank's part
  const VocabularyPart vocabulary_;  ///< of this rank
  const Options options_;
  const Stream stream_;
  const Weights weights_, gradients_;
  const Activations memory_;
  struct Slot {
    std::int64_t first_layer = 0;           ///< of its range, counted from 0
    std::optional<BatchActivations> batch;  ///< the last one
  };
  std::vector<Slot> slots_;
  std::vector<Layer> layers_;
  RopeTable rope_;
  std::vector<OwnedRange> byte_owners_, value_owners_;  ///< of the last batch; context ranks
};

}  // namespace

std::unique_ptr<Model> Model::create(const ModelConfig& config, const ParameterTable& table,
                                     const std::vector<Tensor>& parameters,
                                     const std::vector<Tensor>& gradients, const Options& options,
                                     Stream stream) {
  check_positions(config, options.max_seq_length);
  return std::make_unique<TransformerModel>(config, table, parameters, gradients, options, stream);
}

std::unique_ptr<Model> Model::create(const ModelConfig& config, const ParameterTable& table,
                                     const Tensor& parameters, const Tensor& gradients,
                                     const Options& options, Stream stream) {
  return create(config, table, tensors_by_block(table, parameters),
                tensors_by_block(table, gradients), options, stream);
}

void Model::evaluate(const MicroBatch& batch, double* out) {
  for (int block = 0; block < num_blocks(); ++block) evaluate_block(block, 0, batch);
  loss_sum(0, out);
}

std::vector<Tensor> tensors_by_block(const ParameterTable& table, const Tensor& flat) {
  if (!flat) return {};
  if (flat.numel() != table.total)
    throw Error(ErrorKind::kInternal, fmt::format("a buffer of {} elements for a table of {}",
                                                  flat.numel(), table.total));
  std::vector<Tensor> out;
  for (const Range& block : table.blocks()) out.push_back(flat.slice(0, block.begin, block.end));
  return out;
}

}  // namespace hgt
