#include "products.h"

#include <algorithm>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/train/machine_rates.h"

namespace hgt {
namespace {

/// A linear layer that is applied to `rows` tokens at a time, in a step to `step_rows` in all, and
/// to `again_rows` once more, because their activations were not kept.
struct LinearShape {
  std::string name;
  std::int64_t in, out, rows;
  double step_rows, again_rows;
  bool stored_transposed;  ///< the weight is [out, in]
};

void add_products(const LinearShape& l, std::vector<Product>& out) {
  const double row_flops = 2.0 * static_cast<double>(l.in) * static_cast<double>(l.out);
  const bool t = l.stored_transposed;
  out.push_back({.name = l.name + " fwd", .m = l.rows, .n = l.out, .k = l.in, .transposed_b = t});
  out.push_back(
      {.name = l.name + " dgrad", .m = l.rows, .n = l.in, .k = l.out, .transposed_b = !t});
  out.push_back({.name = l.name + " wgrad",
                 .m = l.in,
                 .n = l.out,
                 .k = l.rows,
                 .transposed_a = true,
                 .transposed_c = t,
                 .gradient = true});
  for (auto product = out.end() - 3; product != out.end(); ++product)
    product->step_flops = l.step_rows * row_flops;
  (out.end() - 3)->step_flops += l.again_rows * row_flops;
}

Tensor matrix(const Buffer& buffer, std::int64_t rows, std::int64_t columns, bool transposed,
              DType dtype) {
  if (transposed) return matrix(buffer, columns, rows, false, dtype).transposed();
  return Tensor(buffer.data(), {rows, columns}, dtype, buffer.device());
}

/// The largest size of an operand among some products.
Buffer operand(const char* name, const std::vector<Product>& products,
               std::int64_t (*numel)(const Product&), DType dtype, const Stream& stream) {
  std::int64_t largest = 0;
  for (const Product& product : products) largest = std::max(largest, numel(product));
  return drawn_numbers(name, largest, dtype, stream);
}

}  // namespace

double Product::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::vector<Product> weight_products(const Config& config) {
  const ModelConfig& m = config.model;
  const std::int64_t rows = config.batch.micro_batch_size * config.training.seq_length;
  const double step_rows =
      static_cast<double>(config.batch.train_batch_size * config.training.seq_length);
  const double layer_rows = step_rows * static_cast<double>(m.num_hidden_layers);
  const ActivationSizes sizes = activation_sizes(config);
  const double again_rows = sizes.recompute == Recompute::kFull
                                ? step_rows * static_cast<double>(sizes.recomputed_layers)
                                : 0;
  const std::int64_t queries = m.num_attention_heads * m.head_dim;
  const bool transposed = !family_of(m).conv1d;
  const std::int64_t planned = planned_logit_rows(config);
  const std::int64_t chunk = planned > 0 ? planned : logit_rows(m, rows);
  std::vector<Product> out;
  for (const LinearShape& l : std::vector<LinearShape>{
           {"qkv", m.hidden_size, qkv_columns(m), rows, layer_rows, again_rows, transposed},
           {"attention out", queries, m.hidden_size, rows, layer_rows, again_rows, transposed},
           {"up", m.hidden_size, up_columns(m), rows, layer_rows, again_rows, transposed},
           {"down", m.intermediate_size, m.hidden_size, rows, layer_rows, 0, transposed},
           {"head", m.hidden_size, rank_model(config).vocab_size, chunk, step_rows, 0, true}})
    add_products(l, out);
  return out;
}

ProductRunner::ProductRunner(const std::vector<Product>& products, DType dtype, Stream stream)
    : dtype_(dtype),
      stream_(stream),
      a_(operand(
          "a", products, [](const Product& p) { return p.m * p.k; }, dtype, stream)),
      b_(operand(
          "b", products, [](const Product& p) { return p.k * p.n; }, dtype, stream)),
      c_(operand(
          "c", products, [](const Product& p) { return p.m * p.n; }, DType::kF32, stream)) {}

ProductRunner::Operands ProductRunner::operands(const Product& p) const {
  return {matrix(a_, p.m, p.k, p.transposed_a, dtype_),
          matrix(b_, p.k, p.n, p.transposed_b, dtype_),
          matrix(c_, p.m, p.n, p.transposed_c, p.gradient ? DType::kF32 : dtype_),
          p.gradient ? 1.0f : 0.0f};
}

std::string_view ProductRunner::kernel(const Product& p) const {
  if (!stream_.device().is_cpu()) return "";
  const Operands o = operands(p);
  return cpu_product_kernel(o.a, o.b, o.beta, o.c, stream_.pool());
}

double ProductRunner::run(const Product& p) const {
  const Operands o = operands(p);
  const auto ms_of = [&](int calls) {
    const std::int64_t start_ns = now_ns();
    for (int i = 0; i < calls; ++i) gemm(1, o.a, o.b, o.beta, o.c, stream_);
    stream_.synchronize();
    return ms_since(start_ns) / calls;
  };
  constexpr double kEnoughMs = 5;  // so that starting and waiting do not count
  const double first_ms = ms_of(1);
  return ms_of(stream_.device().is_cpu()
                   ? 1
                   : static_cast<int>(std::clamp(kEnoughMs / first_ms, 1.0, 100.0)));
}

}  // namespace hgt
