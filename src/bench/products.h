#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

struct Config;

/// One product of a step: c [m, n] = a [m, k] b [k, n], or with `gradient` c += a b in
/// fp32.
struct Product {
  std::string name;  ///< "qkv fwd", "head dgrad", "up wgrad"
  std::int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false, transposed_c = false;  ///< how they are stored
  bool gradient = false;
  double step_flops = 0;  ///< all such products of a step

  double flops() const;  ///< one product
};

/// The weight products of a step of this rank. For each distinct linear layer there are three: the
/// forward, the gradient of its input and that of its weight, as the model computes them. With full
/// recomputation, the forwards that the backward repeats count, too: all but those of the MLP's
/// second layer.
std::vector<Product> weight_products(const Config& config);

/// Multiplies. Its operands have one type, and are large enough for each of the products.
class ProductRunner {
 public:
  ProductRunner(const std::vector<Product>& products, DType dtype, Stream stream);
  /// Milliseconds of one call, after one call that touches its operands; on a GPU the mean of as
  /// many calls as take some milliseconds.
  double run(const Product& product) const;
  /// The kernel that computes the product on the CPU, once it has run: "oneDNN", "own" or "MKL"; ""
  /// on a GPU.
  std::string_view kernel(const Product& product) const;

 private:
  struct Operands {
    Tensor a, b, c;
    float beta;
  };
  Operands operands(const Product& product) const;

  DType dtype_;
  Stream stream_;
  Buffer a_, b_, c_;
};

}  // namespace hgt
