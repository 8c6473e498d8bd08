#include <algorithm>

#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/compute_stream.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/machine/visible_gpus.h"
#include "hgtrain/ops/gemm.h"

#include "about.h"
#include "products.h"
#include "spread.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

Product square(std::int64_t n) {
  return {.name = "square", .m = n, .n = n, .k = n};
}

/// Large square products, whose best rate is the ceiling: of fixed sizes on a CPU; on a GPU, sizes
/// are doubled until a product takes 10 ms.
std::vector<Product> squares(DType dtype, const Stream& stream) {
  std::int64_t n = stream.device().is_cpu() ? 1024 : 256;
  constexpr std::int64_t kLargest = 8192;
  constexpr double kMomentMs = 10;
  const auto is_quick = [&] {
    return ProductRunner({square(n)}, dtype, stream).run(square(n)) < kMomentMs;
  };
  while (!stream.device().is_cpu() && n < kLargest && is_quick()) n *= 2;
  return {square(n / 2), square(n)};
}

/// The types in which products are timed: on a GPU all that it multiplies natively.
std::vector<DType> dtypes_of(const Stream& stream) {
  if (stream.device().is_cpu()) return {DType::kF32, DType::kBF16};
  const auto& gpu = stream.queue().properties();
  if (!has_bf16(10 * gpu.major + gpu.minor)) return {DType::kF32, DType::kF16};
  return {DType::kF32, DType::kBF16, DType::kF16};
}

Json bench_dtype(const std::vector<Product>& products, DType dtype, std::int64_t repeats,
                 const Stream& stream) {
  std::vector<Product> all = squares(dtype, stream);
  const std::size_t first = all.size();
  all.insert(all.end(), products.begin(), products.end());
  const ProductRunner runner(all, dtype, stream);
  std::vector<std::vector<double>> rates(all.size());
  for (std::int64_t i = 0; i < repeats; ++i)
    for (std::size_t p = 0; p < all.size(); ++p)
      rates[p].push_back(all[p].flops() / (runner.run(all[p]) * 1e-3));

  double ceiling = 0;
  for (std::size_t p = 0; p < first; ++p)
    ceiling = std::max(ceiling, *std::max_element(rates[p].begin(), rates[p].end()));
  Json out{{"dtype", name_of(dtype)},
           {"native", !stream.device().is_cpu() || cpu_multiplies(dtype)},
           {"ceiling_flops_per_sec", ceiling},
           {"products", Json::array()}};
  for (std::size_t p = first; p < all.size(); ++p) {
    const Spread rate = spread_of(rates[p]);
    out["products"].push_back({{"product", all[p].name},
                               {"m", all[p].m},
                               {"n", all[p].n},
                               {"k", all[p].k},
                               {"flops_per_sec", to_json(rate)},
                               {"of_ceiling", rate.median / ceiling},
                               {"kernel", runner.kernel(all[p])}});
  }
  return out;
}

}  // namespace

Json bench_gemm(const Config& config, std::int64_t repeats) {
  ComputeStream device(config.hardware.device == "cuda", static_cast<int>(config.hardware.threads),
                       config.training.deterministic);
  if (device.get().device().is_cpu())
    choose_cpu_products(cpu_name(), "");
  else if (!config.times_products())
    set_product_timing(device.get().queue(), ProductTiming::kNone);
  Json out = about("gemm", config, device.get());
  out.erase("dtype");
  out["repeats"] = repeats;
  out["dtypes"] = Json::array();
  for (const DType dtype : dtypes_of(device.get()))
    out["dtypes"].push_back(bench_dtype(weight_products(config), dtype, repeats, device.get()));
  return out;
}

}  // namespace hgt
