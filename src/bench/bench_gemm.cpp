#include <algorithm>

#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"
#include "hgtrain/ops/gemm.h"

#include "about.h"
#include "products.h"
#include "spread.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// Large square products, whose best rate is the ceiling.
std::vector<Product> squares() {
  std::vector<Product> out;
  for (const std::int64_t n : {512, 1024})
    out.push_back({.name = "square", .m = n, .n = n, .k = n});
  return out;
}

Json bench_dtype(const std::vector<Product>& products, DType dtype, std::int64_t repeats,
                 ThreadPool& pool) {
  std::vector<Product> all = squares();
  const std::size_t first = all.size();
  all.insert(all.end(), products.begin(), products.end());
  const ProductRunner runner(all, dtype, pool);
  std::vector<std::vector<double>> rates(all.size());
  for (std::int64_t i = 0; i < repeats; ++i)
    for (std::size_t p = 0; p < all.size(); ++p)
      rates[p].push_back(all[p].flops() / (runner.run(all[p]) * 1e-3));

  double ceiling = 0;
  for (std::size_t p = 0; p < first; ++p)
    ceiling = std::max(ceiling, *std::max_element(rates[p].begin(), rates[p].end()));
  Json out{{"dtype", name_of(dtype)},
           {"native", cpu_multiplies(dtype)},
           {"ceiling_flops_per_sec", ceiling},
           {"products", Json::array()}};
  for (std::size_t p = first; p < all.size(); ++p) {
    const Spread rate = spread_of(rates[p]);
    out["products"].push_back({{"product", all[p].name},
                               {"m", all[p].m},
                               {"n", all[p].n},
                               {"k", all[p].k},
                               {"flops_per_sec", to_json(rate)},
                               {"of_ceiling", rate.median / ceiling}});
  }
  return out;
}

}  // namespace

Json bench_gemm(const Config& config, std::int64_t repeats) {
  ThreadPool pool(static_cast<int>(config.hardware.threads));
  Json out = about("gemm", config);
  out.erase("dtype");
  out["repeats"] = repeats;
  out["dtypes"] = Json::array();
  for (const DType dtype : {DType::kF32, DType::kBF16})
    out["dtypes"].push_back(bench_dtype(weight_products(config), dtype, repeats, pool));
  return out;
}

}  // namespace hgt
