#include "hgtrain/arch/memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/arch/flat_spec.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/arch/shared_memory.h"
#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b, "an activation's size", ErrorKind::kConfig);
}

constexpr std::int64_t kFloatBytes = 4;
/// What oneDNN packs of the operands of products in a thread, with its kernels, as measured with
/// oneDNN 2.6 and AVX-512 (tests/bench/memory.py): 0.2 to 3 MiB, by the shapes of products.
constexpr std::int64_t kPackedBytes = 2 << 20;
/// With several threads, oneDNN 2.6 computes 16-bit products of at most so many rows in fp32 first.
constexpr std::int64_t kRowsInFp32 = 96;
/// An allowance for the kernels of cuBLAS and cuDNN, which are loaded when first used, and graphs.
constexpr std::int64_t kLibraryBytes = 384 << 20;
/// One communicator of NCCL took 544 to 688 MiB on A100s with NVLink (NVIDIA/nccl#964), and 1.06 GB
/// on eight H100s (#1685).
constexpr std::int64_t kNcclBytes = 1 << 30;

/// Scratch memory of the CPU threads: what the neediest kernel needs. Whether the worker's CPU
/// multiplies 16 bits is not known here, so the blocks of a widened product count. Only the first
/// thread has the sums of a norm's gradients.
std::int64_t scratch_floats(const ModelConfig& model, std::int64_t seq_length, DType dtype,
                            int threads) {
  const std::int64_t attention = cpu::attention_bwd_floats(seq_length, model.head_dim);
  const std::int64_t norm =
      cpu::kNormChunks * cpu::norm_sums(model.hidden_size, !family_of(model).rms_norm);
  const std::int64_t product = dtype == DType::kF32 ? 0 : cpu::kWidenedFloats;
  const std::int64_t any = std::max(attention, product);
  return std::max(any, norm) + times(any, threads - 1);
}

/// The workspace of cuDNN's attention in backward, if it is used.
std::int64_t attention_scratch(const Config& config, const ActivationSizes& sizes) {
  const ModelConfig model = tensor_part(config.model, static_cast<int>(sizes.tensor_size));
  if (sizes.dtype == DType::kF32 || !config.hardware.cudnn || model.attn_pdrop > 0 ||
      sizes.context_size > 1)
    return 0;
  const std::int64_t head = cuda::attention_head_bytes(sizes.seq_length);
  const std::int64_t all = times(times(head, model.num_attention_heads), sizes.batch);
  return std::max(std::min(all, cuda::kAttentionPartBytes),
                  times(head, model.num_attention_heads / model.num_key_value_heads));
}

bool uses_nccl(const Config& config) {
  return layout_of(config).world_size() > 1 && config.distributed.backend != "gloo";
}

bool is_recomputed(const std::string& name, const ActivationSizes& sizes) {
  if (sizes.recompute == Recompute::kFull) return name != "output";
  return sizes.recompute == Recompute::kSelective &&
         (name == "norm1" || name == "norm2" || name == "activated");
}

/// Whether the backward of a product's weights reads it.
bool is_product_input(const std::string& name) {
  return name == "norm1" || name == "attention" || name == "norm2" || name == "activated";
}

/// The mean number of keys that a query of a causal sequence sees.
double mean_keys(std::int64_t seq_length, std::int64_t window) {
  const double length = static_cast<double>(seq_length), w = static_cast<double>(window);
  return window == 0 || window >= seq_length ? length / 2 : w - w * w / (2 * length);
}

}  // namespace

std::int64_t PlannedTensor::copies() const {
  std::int64_t out = has_shared_copy ? 1 : 0;
  for (const OfRange& range : of_ranges) out += range.copies();
  return out;
}

std::int64_t PlannedTensor::copy_of(std::size_t range, std::int64_t micro,
                                    std::int64_t layer) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < of_ranges.size(); ++i) {
    const auto& [slots, layers] = of_ranges[i];
    if (i == range && layer >= layers.begin && layer < layers.end)
      return first + micro % slots * layers.size() + layer - layers.begin;
    first += of_ranges[i].copies();
  }
  return has_shared_copy ? first : -1;
}

std::int64_t PlannedTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n = times(n, size);
  return n;
}

std::int64_t PlannedTensor::bytes() const {
  return times(times(numel(), copies()), static_cast<std::int64_t>(size_of(dtype)));
}

std::int64_t partial_gradient_bytes(const std::vector<PartialGradients>& partial) {
  constexpr std::int64_t kAtOnce = 1 << 20;
  std::int64_t largest = 0, all = 0;
  for (const auto& [elements, parts] : partial) {
    const std::int64_t bytes = times(times(parts, elements.size()), kFloatBytes);
    largest = std::max(largest, bytes);
    all += bytes;
  }
  return std::max(largest, std::min(all, kAtOnce));
}

std::int64_t logit_rows(const ModelConfig& model, std::int64_t rows) {
  constexpr std::int64_t kLogits = std::int64_t{16} << 20;
  return std::clamp(kLogits / model.vocab_size, std::min<std::int64_t>(rows, 128), rows);
}

ActivationSizes activation_sizes(const Config& config) {
  ActivationSizes sizes{config.batch.micro_batch_size, config.training.seq_length, 1,
                        config.precision.compute_dtype()};
  const auto& [mode, layers] = config.recompute;
  if (mode == "none") return sizes;
  const std::int64_t all = config.model.num_hidden_layers;
  sizes.recompute = mode == "full" ? Recompute::kFull : Recompute::kSelective;
  sizes.recomputed_layers = layers == 0 ? all : std::min(layers, all);
  return sizes;
}

std::vector<ActivationSizes> activation_sizes(const Config& config, const StepShape& shape) {
  const std::vector<Range> ranges = shape.ranges();
  const std::vector<int> slots = shape.slots();
  std::vector<ActivationSizes> out(ranges.size(), activation_sizes(config));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    out[i].slots = slots[i];
    out[i].tensor_size = config.parallelism.tensor_parallel_size;
    out[i].context_size = config.parallelism.context_parallel_size;
    out[i].split_rows = config.parallelism.sequence_parallel;
    out[i].blocks = ranges[i];
    out[i].split = shape.split();
  }
  return out;
}

Range ActivationSizes::layers(const ModelConfig& model) const {
  if (blocks.size() == 0) return {0, model.num_hidden_layers};
  const std::int64_t first = std::max<std::int64_t>(blocks.begin - 1, 0);
  return {first, std::max(first, std::min(blocks.end - 1, model.num_hidden_layers))};
}

bool ActivationSizes::hands_on(const ModelConfig& model) const {
  return blocks.begin >= model.num_hidden_layers + 2;
}

bool ActivationSizes::has_head(const ModelConfig& model) const {
  return blocks.size() == 0 || blocks.end == model.num_hidden_layers + 2;
}

namespace {

/// Adds those of a range of a worker to those of the ranges before.
void add_activations(const ModelConfig& m, const ActivationSizes& sizes, std::size_t range,
                     std::vector<PlannedTensor>& out) {
  const Family family = family_of(m);
  const std::int64_t tokens = sizes.seq_length / sizes.context_size;  // of a sequence, here
  const std::int64_t rows = times(sizes.batch, tokens), own = sizes.own_rows().size();
  const std::int64_t width = m.hidden_size;
  const std::int64_t q = m.num_attention_heads * m.head_dim, k = m.num_key_value_heads * m.head_dim;
  const std::int64_t inner = m.intermediate_size, up = family.gated_mlp ? 2 * inner : inner;

  const Range layers = sizes.layers(m);
  const bool has_head = sizes.has_head(m);
  const std::int64_t recomputed =
      std::clamp<std::int64_t>(sizes.recomputed_layers - layers.begin, 0, layers.size());
  PlannedTensor::Scope scope = PlannedTensor::Scope::kLayer;
  const auto plan = [&](DType dtype, const std::string& name,
                        const std::vector<std::int64_t>& shape,
                        const PlannedTensor::OfRange& of_range) {
    auto known = std::ranges::find(out, name, &PlannedTensor::name);
    if (known == out.end()) {
      out.push_back({name, shape, scope, dtype});
      known = std::prev(out.end());
    }
    known->of_ranges.resize(range + 1);
    known->of_ranges[range] = of_range;
    known->has_shared_copy |= of_range.layers.begin > 0 || scope == PlannedTensor::Scope::kShared;
  };
  const auto add_as = [&](DType dtype, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
    PlannedTensor::OfRange of_range;
    if (scope != PlannedTensor::Scope::kShared) of_range.slots = sizes.slots;
    if (scope == PlannedTensor::Scope::kSlot) of_range.layers = {0, 1};
    if (scope == PlannedTensor::Scope::kLayer) {
      if (sizes.split && is_product_input(name)) of_range.slots = sizes.split.slots;
      of_range.layers = {is_recomputed(name, sizes) ? recomputed : 0, layers.size()};
    }
    plan(dtype, name, shape, of_range);
  };
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                       bool needed = true) {
    if (needed) add_as(sizes.dtype, name, shape);
  };
  const auto add_f32 = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                           bool needed = true) {
    if (needed) add_as(DType::kF32, name, shape);
  };
  if (sizes.hands_on(m)) {
    plan(sizes.dtype, "output", {own, width}, {sizes.slots, {0, 1}});
    scope = PlannedTensor::Scope::kSlot;
    add("embedded", {own, width});
    add("d_hidden", {own, width});
    return;
  }
  for (const std::string norm : {"norm1", "norm2"}) {
    add(norm, {own, width});
    add_f32(norm + "_mean", {own}, !family.rms_norm);
    add_f32(norm + "_scale", {own});
  }
  add("qkv", {rows, q + 2 * k});
  add("qk", {rows, q + k}, m.qk_norm);
  add_f32("q_scale", {rows, m.num_attention_heads}, m.qk_norm);
  add_f32("k_scale", {rows, m.num_key_value_heads}, m.qk_norm);
  add("attention", {rows, q});
  add_f32("lse", {sizes.batch, m.num_attention_heads, tokens});
  add("after_attention", {own, width});
  add("up", {rows, up});
  add("activated", {rows, inner});
  add("output", {own, width});

  if (sizes.split) {
    using Shape = std::vector<std::int64_t>;
    const auto keep = [&](const std::string& name, const Shape& shape, std::int64_t first_layers) {
      if (first_layers > 0)
        plan(sizes.dtype, name, shape, {sizes.split.between, {0, first_layers}});
    };
    const auto keep_recomputed = [&](const std::string& name, const Shape& shape) {
      keep("recomputed " + name, shape, is_recomputed(name, sizes) ? recomputed : 0);
    };
    keep_recomputed("norm1", {own, width});
    keep_recomputed("attention", {rows, q});
    keep_recomputed("norm2", {own, width});
    keep_recomputed("activated", {rows, inner});
    keep("d_qkv", {rows, q + 2 * k}, layers.size());
    keep("d_out", {rows, width}, layers.size());
    keep("d_up", {rows, up}, layers.size());
    keep("d_down", {rows, width}, layers.size());
  }

  scope = PlannedTensor::Scope::kSlot;
  add("embedded", {own, width});
  add("d_hidden", {own, width});
  add_f32("losses", {rows}, has_head);
  add_f32("final_mean", {own}, has_head && !family.rms_norm);
  add_f32("final_scale", {own}, has_head);
  add("d_final_norm", {own, width}, has_head);

  scope = PlannedTensor::Scope::kShared;
  add("branch", {rows, width});
  add("d_norm", {rows, width});
  add("d_attention", {rows, q});
  add("d_qkv", {rows, q + 2 * k}, !sizes.split);
  add("d_qk", {rows, q + k}, m.qk_norm);
  add("d_up", {rows, up}, !sizes.split);
  add("d_activated", {rows, inner}, family.gated_mlp);
  add("final_norm", {rows, width}, has_head);
  add("logits", {logit_rows(m, rows), m.vocab_size}, has_head);
  add_f32("softmax_parts", {sizes.tensor_size, logit_rows(m, rows), 3},
          has_head && sizes.tensor_size > 1);
  for (const char* name : {"keys_values", "d_keys_values"})
    add(name, {sizes.batch, sizes.seq_length, 2 * m.num_key_value_heads, m.head_dim},
        sizes.context_size > 1);
}

}  // namespace

std::vector<PlannedTensor> activations_of(const ModelConfig& model,
                                          const std::vector<ActivationSizes>& ranges) {
  std::vector<PlannedTensor> out;
  for (std::size_t range = 0; range < ranges.size(); ++range)
    add_activations(model, ranges[range], range, out);
  return out;
}

namespace {

int tensor_size(const Config& config) {
  return static_cast<int>(config.parallelism.tensor_parallel_size);
}

/// The plan of a rank of a pipeline stage. Its schedule is that of one micro-batch: shards and
/// slots of units do not depend on their number.
RankPlan plan_of(const Config& config, const ParameterTable& table, int stage) {
  const Layout layout = layout_of(config);
  RankPlan plan = plan_rank(config, table, layout, {.pipeline = stage}, layout.data_size);
  plan.shape.most_micro_batches =
      std::max<std::int64_t>(1, config.batch.gradient_accumulation_steps);
  return plan;
}

Allocation flat(std::string name, std::int64_t elements, DType type) {
  return {std::move(name), times(elements, static_cast<std::int64_t>(size_of(type)))};
}

/// The slots of ZeRO's stages 2 and 3.
std::vector<Allocation> slots_of(const RankPlan& plan, DType dtype) {
  const auto sum = [](const std::vector<std::int64_t>& elements) {
    return std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  };
  std::vector<Allocation> out;
  if (const auto n = sum(plan.schedule.parameter_slot_elements); n > 0)
    out.push_back(flat("gathered weights", n, dtype));
  if (const auto n = sum(plan.schedule.gradient_slot_elements); n > 0)
    out.push_back(flat("gradients of blocks", n, DType::kF32));
  return out;
}

/// The elements of the largest shard.
std::int64_t largest_shard(const RankPlan& plan) {
  std::int64_t out = 0;
  for (int rank = 0; rank < plan.group_size(); ++rank)
    out = std::max(out, plan.sharding.shard_elements(rank));
  return out;
}

FlatSpec flat_spec_of(const Config& config, const RankPlan& plan) {
  return flat_spec(config, plan.stage(), config.hardware.device == "cuda");
}

/// What a rank writes into a checkpoint.
std::int64_t checkpoint_bytes(const FlatSpec& spec, std::int64_t shard) {
  std::size_t bytes = size_of(spec.parameters.dtype);
  for (const FlatBufferSpec& buffer : spec.state) bytes += size_of(buffer.dtype);
  if (spec.ema) bytes += size_of(spec.ema->dtype);
  return times(shard, static_cast<std::int64_t>(bytes));
}

/// What tensor ranks exchange at once for a save: a block of a tensor, once as the ranks have it
/// and once as a file does.
std::int64_t exchanged_bytes(const FlatSpec& spec, const ParameterTable& table) {
  std::int64_t largest = 0;
  for (const Parameter& p : table.parameters)
    if (p.split.parts > 1) largest = std::max(largest, times(p.numel, p.split.parts));
  std::size_t widest = size_of(spec.parameters.dtype);
  for (const FlatBufferSpec& buffer : spec.state) widest = std::max(widest, size_of(buffer.dtype));
  if (spec.ema) widest = std::max(widest, size_of(spec.ema->dtype));
  return std::min(kCheckpointExchangeBytes, times(2 * largest, static_cast<std::int64_t>(widest)));
}

/// What stays from step to step.
struct FlatMemory {
  std::vector<Allocation> on_device, offloaded;
};

FlatMemory flat_memory(const FlatSpec& spec, const RankPlan& plan) {
  FlatMemory out;
  const std::int64_t all = plan.elements(), shard = largest_shard(plan);
  const auto add = [&](std::string name, const FlatBufferSpec& buffer) {
    (buffer.offloaded ? out.offloaded : out.on_device)
        .push_back(flat(std::move(name), buffer.sharded ? shard : all, buffer.dtype));
  };
  const auto add_weights = [&](const std::optional<FlatBufferSpec>& buffer) {
    if (buffer) add(fmt::format("{} weights", name_of(buffer->dtype)), *buffer);
  };
  add("parameters", spec.parameters);
  for (const FlatBufferSpec& buffer : spec.state) add("optimizer: " + buffer.name, buffer);
  if (spec.ema) add("ema", *spec.ema);
  add("gradients", spec.gradients);
  if (spec.gradients.offloaded && plan.stage() < 2)
    out.on_device.push_back(flat("gradients", all, DType::kF32));
  add_weights(spec.rounded);
  add_weights(spec.sent);
  return out;
}

/// Of gradients that come back from the host to be added to those of a later micro-batch.
Allocation earlier_sum(const RankPlan& plan) {
  std::int64_t largest = 0;
  for (const Slice& slice : plan.slices()) largest = std::max(largest, slice.elements.size());
  return flat("earlier sum of gradients", largest, DType::kF32);
}

}  // namespace

void require_gpu_widths(const ModelConfig& model, DType dtype) {
  const std::int64_t widest = cuda::kMaxRowBytes / static_cast<std::int64_t>(size_of(dtype));
  if (model.hidden_size > widest)
    throw Error(ErrorKind::kConfig,
                fmt::format("a hidden size of {} is more than the GPU kernels support: {} in {}",
                            model.hidden_size, widest, name_of(dtype)),
                "set bf16.enabled, which allows twice the size of fp32; or train on the CPU");
  if (model.head_dim > cuda::kMaxHeadDim)
    throw Error(ErrorKind::kConfig,
                fmt::format("heads of {} are wider than the GPU attention kernels support: {}",
                            model.head_dim, cuda::kMaxHeadDim),
                "use more heads, or train on the CPU");
}

std::vector<Allocation> offloaded_memory(const Config& config, int stage) {
  const RankPlan plan = plan_of(config, rank_table(config), stage);
  return flat_memory(flat_spec_of(config, plan), plan).offloaded;
}

std::int64_t save_bytes(const Config& config) {
  const ParameterTable table = rank_table(config);
  std::int64_t most = 0;
  for (int stage = 0; stage < config.parallelism.pipeline_parallel_size; ++stage) {
    const RankPlan plan = plan_of(config, table, stage);
    const FlatSpec spec = flat_spec_of(config, plan);
    if (spec.gradients.offloaded && !config.checkpoint.async_save) return 0;
    most = std::max(most, checkpoint_bytes(spec, largest_shard(plan)));
  }
  return most;
}

std::vector<Allocation> memory_table(const Config& config, int threads) {
  std::vector<Allocation> largest;
  for (int stage = 0; stage < config.parallelism.pipeline_parallel_size; ++stage)
    if (auto table = memory_table(config, threads, stage);
        total_bytes(table) > total_bytes(largest))
      largest = std::move(table);
  return largest;
}

std::vector<Allocation> memory_table(const Config& config, int threads, int stage) {
  const DType dtype = config.precision.compute_dtype();
  const ModelConfig model = tensor_part(config.model, tensor_size(config));
  const ParameterTable table = rank_table(config);
  const RankPlan plan = plan_of(config, table, stage);
  const FlatSpec spec = flat_spec_of(config, plan);
  std::vector<Allocation> out = flat_memory(spec, plan).on_device;
  if (spec.gradients.offloaded && plan.stage() >= 2 && config.batch.gradient_accumulation_steps > 1)
    out.push_back(earlier_sum(plan));
  for (Allocation& slots : slots_of(plan, dtype)) out.push_back(std::move(slots));
  if (plan.shape.is_tied_across() && plan.shape.pipeline.is_last()) {
    const std::int64_t tokens = times(model.vocab_size, model.hidden_size);
    out.push_back(flat("tied: copy of the embedding", tokens, dtype));
    out.push_back(flat("tied: its gradients", tokens, DType::kF32));
  }
  const bool on_cpu = config.hardware.device != "cuda";
  if (on_cpu && config.checkpoint.async_save)
    out.push_back({"checkpoint: copy", checkpoint_bytes(spec, largest_shard(plan))});
  if (on_cpu) out.push_back({"checkpoint: buffers", kCheckpointBufferBytes});
  if (on_cpu && config.parallelism.tensor_parallel_size > 1)
    out.push_back({"checkpoint: exchange between tensor ranks", exchanged_bytes(spec, table)});
  const std::vector<ActivationSizes> ranges = activation_sizes(config, plan.shape);
  const ActivationSizes& sizes = ranges.front();  // what does not depend on the range
  if (const auto bytes = partial_gradient_bytes(
          partial_gradients(table, tensor_size(config), config.parallelism.sequence_parallel));
      bytes > 0)
    out.push_back({"gradients that tensor ranks sum", bytes});
  for (const PlannedTensor& a : activations_of(model, ranges)) {
    const char* scope = a.scope == PlannedTensor::Scope::kLayer ? "layers" : "activations";
    out.push_back({fmt::format("{}: {}", scope, a.name), a.bytes()});
  }
  if (family_of(config.model).rope)
    out.push_back({"rope tables",
                   times(times(sizes.seq_length, config.model.head_dim / 2), 2 * kFloatBytes)});
  if (on_cpu) {
    out.push_back({"scratch of threads",
                   times(scratch_floats(model, sizes.seq_length, dtype, threads), kFloatBytes)});
    out.push_back({"packed operands of matrix products", times(threads, kPackedBytes)});
    const std::int64_t rows = times(sizes.batch, sizes.seq_length / sizes.context_size);
    const bool has_head = std::ranges::any_of(
        ranges, [&](const ActivationSizes& range) { return range.has_head(model); });
    if (dtype != DType::kF32 && threads > 1 && has_head && rows <= kRowsInFp32)
      out.push_back(
          {"logits in fp32, in oneDNN", times(times(rows, model.vocab_size), kFloatBytes)});
    if (const std::int64_t shared = shared_memory(config, stage).mapped; shared > 0)
      out.push_back({"memory shared with other workers", shared});
    return out;
  }
  out.push_back({"scratch of matrix products and attention",
                 cuda::kProductWorkspaceBytes + attention_scratch(config, sizes)});
  out.push_back({"CUDA: kernels of its libraries, graphs", kLibraryBytes});
  if (uses_nccl(config)) out.push_back({"CUDA: NCCL", kNcclBytes});
  return out;
}

std::int64_t total_bytes(const std::vector<Allocation>& table) {
  return std::accumulate(table.begin(), table.end(), std::int64_t{0},
                         [](std::int64_t sum, const Allocation& a) { return sum + a.bytes; });
}

namespace {

/// As block_times, if the model's first layers are recomputed.
std::vector<BlockTime> times_of(const ModelConfig& m, std::int64_t seq_length,
                                std::int64_t recomputed_layers) {
  const double width = static_cast<double>(m.hidden_size);
  const double q = static_cast<double>(m.num_attention_heads * m.head_dim);
  const double k = static_cast<double>(m.num_key_value_heads * m.head_dim);
  const double products = family_of(m).gated_mlp ? 3 : 2;
  const double layer =
      width * (2 * q + 2 * k) + products * width * static_cast<double>(m.intermediate_size);
  std::vector<BlockTime> out = {{}};
  for (std::int64_t i = 0; i < m.num_hidden_layers; ++i) {
    const double keys = mean_keys(
        seq_length, m.layer_windows.empty() ? 0 : m.layer_windows[static_cast<std::size_t>(i)]);
    const double forward = 2 * layer + 4 * q * keys;
    const double again = i < recomputed_layers ? forward : 0;
    out.push_back({forward, 2 * layer + 8 * q * keys + again, 2 * layer});
  }
  out.push_back({6 * static_cast<double>(m.vocab_size) * width, 0, 0});
  return out;
}

}  // namespace

std::vector<BlockTime> block_times(const Config& config) {
  const ActivationSizes sizes = activation_sizes(config);
  return times_of(config.model, sizes.seq_length,
                  sizes.recompute == Recompute::kFull ? sizes.recomputed_layers : 0);
}

double train_flops(const ModelConfig& m, std::int64_t seq_length, std::int64_t tokens) {
  double of_token = 0;
  for (const BlockTime& block : times_of(m, seq_length, 0)) of_token += block.sum();
  return static_cast<double>(tokens) * of_token;
}

}  // namespace hgt
