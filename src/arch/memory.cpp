#include "hgtrain/arch/memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/flat_spec.h"
#include "hgtrain/arch/gpu_scratch.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/arch/shared_memory.h"
#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/parallel/shared_pieces.h"

#include "times.h"

namespace hgt {
namespace {

/// The most memory in a thread for oneDNN's packed operands and kernels, as measured with oneDNN
/// 2.6 and AVX-512 (tests/bench/memory.py).
constexpr std::int64_t kPackedBytes = 2 << 20, kPackedBytesAmx = 5 << 20;
/// With several threads, oneDNN 2.6 computes 16-bit products of at most this many rows in fp32
/// first.
constexpr std::int64_t kRowsInFp32 = 96;
/// An allowance for the kernels of cuBLAS and cuDNN, which are loaded when first used, and graphs.
constexpr std::int64_t kLibraryBytes = 384 << 20;
/// One communicator of NCCL took 544 to 688 MiB on A100s with NVLink (NVIDIA/nccl#964), and 1.06 GB
/// on eight H100s (#1685).
constexpr std::int64_t kNcclBytes = 1 << 30;

/// The columns of the widest product with a weight.
std::int64_t most_columns(const ModelConfig& model) {
  return std::max({model.vocab_size, qkv_columns(model), up_columns(model)});
}

/// Scratch memory of the CPU threads: as much as the kernel that needs most. It is not known here
/// which kernels the worker's CPU chooses, so our own product kernel counts if it may be chosen.
/// Only the first thread has the sums of a norm's gradients.
std::int64_t scratch_floats(const ModelConfig& model, std::int64_t seq_length, std::int64_t tokens,
                            DType dtype, int threads) {
  const std::int64_t attention = cpu::attention_bwd_floats(seq_length, model.head_dim);
  const std::int64_t norm =
      cpu::kNormChunks * cpu::norm_sums(model.hidden_size, !family_of(model).rms_norm);
  std::int64_t product = cpu::kPackedFloats;
  if (dtype == DType::kF32)
    product =
        cpu::is_timed(tokens, most_columns(model), model.hidden_size) ? cpu::kPackedWideFloats : 0;
  const std::int64_t any = std::max(attention, product);
  return std::max(any, norm) + times(any, threads - 1);
}

/// The packed operands of a thread's part of the largest product, which is a gradient of weights:
/// oneDNN packs a block of its rows over some of the tokens. For fp32, more than that was measured,
/// and the measurement is used.
std::int64_t packed_bytes(const ModelConfig& model, DType dtype, std::int64_t tokens, bool has_head,
                          int threads) {
  constexpr std::int64_t kBlockTokens = 384, kBlockRows = 8192;
  if (dtype == DType::kF32) return kPackedBytes;
  const std::int64_t rows = std::max(model.intermediate_size, has_head ? model.vocab_size : 0);
  const std::int64_t block = std::min(tokens, kBlockTokens) * std::min(rows / threads, kBlockRows) *
                             static_cast<std::int64_t>(size_of(dtype));
  return std::min(block, cpu_has_amx() ? kPackedBytesAmx : kPackedBytes);
}

/// The workspace of cuDNN's attention in backward, if it is used.
std::int64_t attention_scratch(const Config& config, const ActivationSizes& sizes) {
  const ModelConfig model = rank_model(config);
  if (sizes.dtype == DType::kF32 || !config.hardware.cudnn || model.attn_pdrop > 0 ||
      sizes.context_size > 1)
    return 0;
  const auto of_all = [&](std::int64_t head) {
    return times(times(head, model.num_attention_heads), sizes.batch);
  };
  if (!config.deterministic_attention())
    return of_all(cuda::unordered_attention_head_bytes(sizes.seq_length, model.head_dim));
  const std::int64_t head = cuda::attention_head_bytes(sizes.seq_length);
  return std::max(std::min(of_all(head), gpu_scratch(config).attention_part_bytes),
                  times(head, model.num_attention_heads / model.num_key_value_heads));
}

bool uses_nccl(const Config& config) {
  return layout_of(config).world_size() > 1 && config.distributed.backend != "gloo";
}

int tensor_size(const Config& config) {
  return static_cast<int>(config.parallelism.tensor_parallel_size);
}

/// The plan of a rank of a pipeline stage, with a schedule for one micro-batch, because shards and
/// slots of units do not depend on the number of micro-batches.
RankPlan plan_of(const Config& config, const ParameterTable& table, int stage) {
  const Layout layout = layout_of(config);
  RankPlan plan = plan_rank(config, table, layout, {.pipeline = stage}, layout.data_size);
  plan.shape.max_micro_batches =
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

/// The rounded copy of gradients that workers sum, in slots like those of the gradients.
std::optional<Allocation> sent_gradients(const Config& config, const RankPlan& plan) {
  const DType dtype = config.gradient_sum_dtype();
  if (dtype == DType::kF32 || plan.group_size() == 1) return std::nullopt;
  const std::vector<std::int64_t>& slots = plan.schedule.gradient_slot_elements;
  const std::int64_t elements = slots.empty()
                                    ? plan.elements()
                                    : std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
  return flat(fmt::format("{} gradients to send", name_of(dtype)), elements, dtype);
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

/// What `elements` of the model take in a checkpoint.
std::int64_t bytes_in_checkpoint(const FlatSpec& spec, std::int64_t elements) {
  std::size_t bytes = size_of(spec.parameters.dtype);
  for (const FlatBufferSpec& buffer : spec.state) bytes += size_of(buffer.dtype);
  if (spec.ema) bytes += size_of(spec.ema->dtype);
  return times(elements, static_cast<std::int64_t>(bytes));
}

/// The buffers through which tensor ranks exchange a block of a tensor for a save: once in the
/// ranks' order, once in the file's.
std::int64_t exchanged_bytes(const FlatSpec& spec, const ParameterTable& table) {
  std::int64_t largest = 0;
  for (const Parameter& p : table.parameters)
    if (p.split.parts > 1) largest = std::max(largest, times(p.numel, p.split.parts));
  std::size_t widest = size_of(spec.parameters.dtype);
  for (const FlatBufferSpec& buffer : spec.state) widest = std::max(widest, size_of(buffer.dtype));
  if (spec.ema) widest = std::max(widest, size_of(spec.ema->dtype));
  return std::min(kCheckpointExchangeBytes, times(2 * largest, static_cast<std::int64_t>(widest)));
}

/// Memory that stays from step to step.
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

/// Memory for gradients that come back from the host, to be added to those of a later micro-batch.
Allocation earlier_sum(const RankPlan& plan) {
  std::int64_t largest = 0;
  for (const Slice& slice : plan.slices()) largest = std::max(largest, slice.elements.size());
  return flat("earlier sum of gradients", largest, DType::kF32);
}

/// Parameters, gradients and optimizer state, and the buffers through which ranks exchange them.
std::vector<Allocation> state_memory(const Config& config, const RankPlan& plan) {
  const DType dtype = config.precision.compute_dtype();
  const ModelConfig model = rank_model(config);
  const FlatSpec spec = flat_spec_of(config, plan);
  std::vector<Allocation> out = flat_memory(spec, plan).on_device;
  if (spec.gradients.offloaded && plan.stage() >= 2 && config.batch.gradient_accumulation_steps > 1)
    out.push_back(earlier_sum(plan));
  for (Allocation& slots : slots_of(plan, dtype)) out.push_back(std::move(slots));
  if (auto sent = sent_gradients(config, plan)) {
    out.push_back(std::move(*sent));
    if (config.hardware.device == "cuda" && uses_nccl(config))
      out.push_back({"gradients received from other ranks", kReceivedBytes});
  }
  if (plan.shape.is_tied_across() && plan.shape.pipeline.is_last()) {
    const std::int64_t tokens = times(model.vocab_size, model.hidden_size);
    out.push_back(flat("tied: copy of the embedding", tokens, dtype));
    out.push_back(flat("tied: its gradients", tokens, DType::kF32));
  }
  return out;
}

/// What saving a checkpoint takes on a CPU.
std::vector<Allocation> checkpoint_memory(const Config& config, const ParameterTable& table,
                                          const RankPlan& plan) {
  const FlatSpec spec = flat_spec_of(config, plan);
  std::vector<Allocation> out;
  if (config.checkpoint.async_save)
    out.push_back({"checkpoint: copy", bytes_in_checkpoint(spec, largest_shard(plan))});
  out.push_back({"checkpoint: buffers", kCheckpointBufferBytes});
  if (config.parallelism.tensor_parallel_size > 1)
    out.push_back({"checkpoint: exchange between tensor ranks", exchanged_bytes(spec, table)});
  return out;
}

/// What forward and backward compute into, for the `ranges` of blocks of a rank.
std::vector<Allocation> activation_memory(const Config& config, const ParameterTable& table,
                                          const std::vector<ActivationSizes>& ranges) {
  std::vector<Allocation> out;
  if (const auto bytes = partial_gradient_bytes(
          partial_gradients(table, tensor_size(config), config.parallelism.sequence_parallel));
      bytes > 0)
    out.push_back({"gradients that tensor ranks sum", bytes});
  for (const PlannedTensor& a : activations_of(rank_model(config), ranges)) {
    const char* scope = a.scope == PlannedTensor::Scope::kLayer ? "layers" : "activations";
    out.push_back({fmt::format("{}: {}", scope, a.name), a.bytes()});
  }
  if (family_of(config.model).rope)
    out.push_back({"rope tables", times(times(ranges.front().seq_length, config.model.head_dim / 2),
                                        2 * kFloatBytes)});
  return out;
}

std::vector<Allocation> cpu_scratch(const Config& config,
                                    const std::vector<ActivationSizes>& ranges, int threads) {
  const DType dtype = config.precision.compute_dtype();
  const ModelConfig model = rank_model(config);
  const std::int64_t rows = ranges.front().rows();
  const bool has_head = std::ranges::any_of(
      ranges, [&](const ActivationSizes& range) { return range.has_head(model); });
  std::vector<Allocation> out{
      {"scratch of threads",
       times(scratch_floats(model, ranges.front().seq_length, rows, dtype, threads), kFloatBytes)},
      {"packed operands of matrix products",
       times(threads, packed_bytes(model, dtype, rows, has_head, threads))}};
  if (dtype != DType::kF32 && threads > 1 && has_head && rows <= kRowsInFp32)
    out.push_back({"logits in fp32, in oneDNN", times(times(rows, model.vocab_size), kFloatBytes)});
  return out;
}

std::vector<Allocation> cuda_scratch(const Config& config,
                                     const std::vector<ActivationSizes>& ranges) {
  std::vector<Allocation> out{
      {"scratch of matrix products and attention",
       cuda::kProductWorkspaceBytes + attention_scratch(config, ranges.front())},
      {"CUDA: kernels of its libraries, graphs", kLibraryBytes}};
  if (uses_nccl(config)) out.push_back({"CUDA: NCCL", kNcclBytes});
  return out;
}

}  // namespace

void require_gpu_widths(const ModelConfig& model, DType dtype) {
  const auto key = [&](const char* name) { return family_key(family_of(model), name); };
  const auto refuse = [&](const char* name, std::int64_t value, std::int64_t most,
                          const std::string& where, const std::string& hint) {
    if (value <= most) return;
    throw Error(ErrorKind::kConfig,
                fmt::format("model.{} = {} exceeds {}, the most that the GPU kernels support{}",
                            key(name), value, most, where),
                hint + ", or train on the CPU");
  };
  const std::int64_t widest = cuda::kMaxRowBytes / static_cast<std::int64_t>(size_of(dtype));
  refuse("hidden_size", model.hidden_size, widest, fmt::format(" in {}", name_of(dtype)),
         dtype == DType::kF32
             ? fmt::format("set bf16.enabled, which allows up to {}", cuda::kMaxRowBytes / 2)
             : "use a narrower model");
  refuse("head_dim", model.head_dim, cuda::kMaxHeadDim, "",
         fmt::format("use more heads (model.{})", key("num_attention_heads")));
}

std::vector<Allocation> offloaded_memory(const Config& config, int stage) {
  const RankPlan plan = plan_of(config, rank_table(config), stage);
  return flat_memory(flat_spec_of(config, plan), plan).offloaded;
}

std::int64_t checkpoint_bytes(const Config& config) {
  const FlatSpec spec = flat_spec(config, 0, config.hardware.device == "cuda");
  return bytes_in_checkpoint(spec, parameter_table(config.model, false).total);
}

std::int64_t save_bytes(const Config& config) {
  const ParameterTable table = rank_table(config);
  std::int64_t largest = 0;
  for (int stage = 0; stage < config.parallelism.pipeline_parallel_size; ++stage) {
    const RankPlan plan = plan_of(config, table, stage);
    const FlatSpec spec = flat_spec_of(config, plan);
    if (spec.gradients.offloaded && !config.checkpoint.async_save) return 0;
    largest = std::max(largest, bytes_in_checkpoint(spec, largest_shard(plan)));
  }
  return largest;
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
  const bool on_cpu = config.hardware.device != "cuda";
  const ParameterTable table = rank_table(config);
  const RankPlan plan = plan_of(config, table, stage);
  const std::vector<ActivationSizes> ranges = activation_sizes(config, plan.shape);
  std::vector<Allocation> out = state_memory(config, plan);
  const auto append = [&](std::vector<Allocation> more) {
    std::ranges::move(more, std::back_inserter(out));
  };
  if (on_cpu) append(checkpoint_memory(config, table, plan));
  append(activation_memory(config, table, ranges));
  append(on_cpu ? cpu_scratch(config, ranges, threads) : cuda_scratch(config, ranges));
  if (!on_cpu) return out;
  if (const std::int64_t shared = shared_memory(config, stage).mapped; shared > 0)
    out.push_back({"memory shared with other workers", shared});
  return out;
}

std::int64_t total_bytes(const std::vector<Allocation>& table) {
  return std::accumulate(table.begin(), table.end(), std::int64_t{0},
                         [](std::int64_t sum, const Allocation& a) { return sum + a.bytes; });
}

std::int64_t worker_bytes(const Config& config) {
  return total_bytes(memory_table(config, static_cast<int>(config.hardware.threads)));
}

}  // namespace hgt
