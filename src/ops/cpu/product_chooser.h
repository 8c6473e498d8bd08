#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "../gemm_cache.h"
#include "products.h"

namespace hgt::cpu {

/// Which kernel computes a product: the fastest one, found by timing each once. The choices are
/// kept in files, so that a run repeats another one's bits.
///
/// Any thread may call it; while one thread times a product, the others wait.
class ProductChooser {
 public:
  /// Keeps choices in each of the folders ("" is none); if they differ, the first folder's are
  /// valid. `cpu` names the CPU.
  ProductChooser(const std::string& cpu, const std::vector<std::string>& folders);

  /// The kernel that computes the product, which is a cell of a larger one: `usual` if another one
  /// gains little, or if the product is small. If no file has the choice, the kernels are timed
  /// with these operands and another c. The next calls for the same shape allocate nothing.
  ///
  /// fp32 has all kernels, bf16 oneDNN's and ours; MKL and oneDNN's bf16 only if they can run here.
  template <class T>
  ProductKernel choose(const Product<T>& cell, ProductKernel usual);

 private:
  using Shape = std::tuple<DType, std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, bool>;

  std::mutex mutex_;
  std::vector<std::unique_ptr<GemmCache>> files_;
  std::map<Shape, ProductKernel> chosen_;
};

/// The chooser that choose_cpu_products() has made, or null.
ProductChooser* product_chooser();

}  // namespace hgt::cpu
