#include "hgtrain/train/warm_up.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/ops/normal.h"
#include "hgtrain/optim/round.h"
#include "hgtrain/train/model_options.h"

#include "batch_loader.h"

namespace hgt {
namespace {

/// The job with a small model that has the job's kinds of layers: some of its first ones may be
/// recomputed.
Config small_job(Config config) {
  std::int64_t& layers = config.model.num_hidden_layers;
  std::int64_t& recomputed = config.recompute.num_layers;
  if (recomputed >= layers) recomputed = 0;  // all of them
  recomputed = std::min<std::int64_t>(recomputed, 1);
  layers = std::min<std::int64_t>(layers, 2);
  return config;
}

/// Fills `values` [N], fp32, with numbers like a new model's, because multiplying zeros takes less
/// power and may run at another clock rate.
void fill(const Tensor& values, const CudaQueue& queue) {
  const std::int64_t count = std::min<std::int64_t>(values.numel(), 1 << 20);
  const Buffer drawn("numbers to try products with", count * 4);
  ThreadPool pool(1);
  constexpr float kDeviation = 0.02f;
  normal_fill(0, 0, kDeviation, 0, Tensor(drawn.data(), {count}, DType::kF32), pool);
  for (std::int64_t begin = 0; begin < values.numel(); begin += count) {
    const Tensor part = values.slice(0, begin, std::min(begin + count, values.numel()));
    queue.copy(part.raw(), drawn.data(), part.bytes());
  }
  queue.synchronize();
}

/// Runs what the stages of a pipeline do with gradients between their transfers.
void sum_alone(const Config& config, const Tensor& gradients, const Stream& stream) {
  const std::int64_t count = std::min<std::int64_t>(gradients.numel(), 1 << 10);
  const Buffer copy("gradients to try sums with", count * 4, stream.device());
  const Buffer unless("a flag to try sums with", sizeof(std::int32_t), stream.device());
  const Tensor some = gradients.slice(0, 0, count);
  const Tensor sum(copy.data(), {count}, DType::kF32, stream.device());
  stream.copy(unless.data(), some.raw(), sizeof(std::int32_t));
  clear(sum, stream, unless.as<std::int32_t>().data());
  for (const bool first : {true, false}) accumulate(some, sum, first, stream);
  if (const DType sent = config.gradient_sum_dtype(); sent != DType::kF32) {
    const Tensor rounded(copy.data(), {count}, sent, stream.device());
    round_to(some, rounded, stream);
    round_to(rounded, some, stream);
  }
}

/// Computes the forward, the backward and an evaluation of a micro-batch with a few layers of the
/// job's model, alone, as the rank would do with others.
void compute_alone(const Config& job, const Coordinates& at, const CudaQueue& queue) {
  const Config config = small_job(job);
  const Stream stream(queue);
  const Device device = queue.device();
  const ParallelismConfig& split = config.parallelism;
  const auto rank_of = [](int rank, std::int64_t size) {
    return size > 1 ? make_self_communicator(rank, static_cast<int>(size)) : nullptr;
  };
  const auto tensor = rank_of(at.tensor, split.tensor_parallel_size);
  const auto context = rank_of(at.context, split.context_parallel_size);
  Model::Options options = model_options(config);
  options.logit_rows = planned_logit_rows(job);
  options.tensor = tensor.get();
  options.context = context.get();
  options.split_rows = split.sequence_parallel;

  const ParameterTable table = rank_table(config);
  const DType dtype = config.precision.compute_dtype();
  const Buffer gradients("gradients to try products with", table.total * 4, device);
  const Buffer weights("weights to try products with",
                       table.total * static_cast<std::int64_t>(size_of(dtype)), device);
  const Tensor d(gradients.data(), {table.total}, DType::kF32, device);
  const Tensor w(weights.data(), {table.total}, dtype, device);
  fill(d, queue);
  if (dtype == DType::kF32)
    stream.copy(w.raw(), d.raw(), w.bytes());
  else
    round_to(d, w, stream);
  clear(d, stream);
  const auto model = Model::create(config.model, table, w, d, options, stream);

  MicroBatch batch;
  batch.batch = config.batch.micro_batch_size;
  batch.seq_length = config.training.seq_length / split.context_parallel_size;
  const Buffer ids("tokens to try products with", batch.batch * batch.seq_length * 4, device);
  const Buffer key("sample to try products with", sizeof(SampleKey), device);
  batch.tokens_BT = batch.targets_BT = ids.as<std::int32_t>();
  if (context || sample_form(job).has_positions()) batch.positions_BT = ids.as<std::int32_t>();
  batch.samples = key.as<SampleKey>().data();
  for (int block = 0; block < model->num_blocks(); ++block) model->forward(block, 0, batch);
  for (int block = model->num_blocks(); block-- > 0;) model->backward(block, 0, batch);
  const Buffer loss("loss to try products with", sizeof(double), device);
  model->evaluate(batch, loss.as<double>().data());
  sum_alone(config, d, stream);
  queue.synchronize();
}

}  // namespace

std::string warm_up(const Config& config, int rank, int ranks, Store& store,
                    const CudaQueue& queue) {
  const std::chrono::milliseconds timeout(config.distributed.timeout_ms());
  const auto gpu_of = [](int of) { return fmt::format("products/gpu of {}", of); };
  const auto choices_of = [](int of) { return fmt::format("products/choices of {}", of); };
  std::string trouble;
  const auto compute = [&] {
    try {
      compute_alone(config, make_layout(config.parallelism, ranks).coordinates_of(rank), queue);
    } catch (const Error& error) {  // too little memory; training reports it with more detail
      trouble = "; a micro-batch could not be computed, because of " + error.message();
    }
  };
  const std::int64_t begin_ns = now_ns();
  if (!config.times_products()) {
    compute();
    return fmt::format("matrix products: cuBLAS's first algorithms{}", trouble);
  }

  const std::string kind = product_choices(queue).valid_for;
  store.set(gpu_of(rank), kind);
  int first = 0;
  while (first < rank && store.get(gpu_of(first), timeout) != kind) ++first;
  if (first < rank) {
    const std::int64_t count = use_product_choices(queue, store.get(choices_of(first), timeout));
    compute();
    return fmt::format(
        "matrix products: {} computed as rank {} chose, which has the same kind of GPU{}", count,
        first, trouble);
  }
  compute();
  const ProductChoices chosen = product_choices(queue);
  store.set(choices_of(rank), chosen.text);
  const auto& [count, unfused, untimed] = chosen.counts;
  if (untimed > 0) trouble = fmt::format("; no memory to time {} more{}", untimed, trouble);
  return fmt::format(
      "matrix products: chose how to compute {} in {:.1f} s, {} of them with kernels of hgtrain "
      "for bias, GELU or bias gradient{}",
      count, ms_since(begin_ns) * 1e-3, unfused, trouble);
}

}  // namespace hgt
