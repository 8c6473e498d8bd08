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

/// Which kernel computes a product of fp32: the faster one, found by timing both once. The choices
/// are kept in files, so that a run repeats another one's bits.
///
/// Any thread may call it; while one thread times a product, the others wait.
class ProductChooser {
 public:
  /// Keeps choices in each of the folders ("" is none); if they differ, the first folder's are
  /// valid. `cpu` names the CPU.
  ProductChooser(const std::string& cpu, const std::vector<std::string>& folders);

  /// Whether our own kernel computes the product, which is a cell of a larger one. If no file has
  /// the choice, both kernels are timed with these operands and another c. The next calls for the
  /// same shape allocate nothing.
  bool prefers_own(const Product<float>& cell);

 private:
  bool choose(const std::string& shape, const Product<float>& cell);

  std::mutex mutex_;
  std::vector<std::unique_ptr<GemmCache>> files_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool>, bool> own_;
};

/// The chooser that choose_cpu_products() has made, or null.
ProductChooser* product_chooser();

}  // namespace hgt::cpu
