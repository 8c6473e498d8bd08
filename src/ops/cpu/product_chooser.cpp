#include "product_chooser.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/base/log.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

#include "mkl.h"

namespace hgt::cpu {
namespace {

template <class T>
constexpr DType kType = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;

constexpr int kRepeats = 3;
/// Another kernel is chosen if it takes less than this share of the usual one's time.
constexpr double kMuchFaster = 0.97;

/// The CPU time of this thread, which other programs on the machine do not increase.
double cpu_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Memory for timing: a c with the same distance between rows as the cell's, because rows at
/// certain distances evict each other from the caches, and what our kernel needs. Only those pages
/// of c take memory that are written, so it is no Buffer, which may have large ones.
struct Scratch {
  template <class T>
  explicit Scratch(const Product<T>& p)
      : c(new (kLine) float[static_cast<std::size_t>(p.m * p.ldc)]),
        packed("packed operands", kPackedFloats * std::int64_t{sizeof(float)}) {}

  static constexpr std::align_val_t kLine{Buffer::kAlignment};
  struct Delete {
    void operator()(float* x) const { operator delete[](x, kLine); }
  };
  std::unique_ptr<float[], Delete> c;
  Buffer packed;
};

/// A part of the cell that takes some milliseconds.
template <class T>
Product<T> sample_of(Product<T> cell) {
  constexpr std::int64_t kRows = 1024, kColumns = 1152, kDepth = 2048;
  constexpr std::int64_t kMinRows = 64, kMaxFloats = 1 << 20;  // the rows of logits are long
  cell.m = std::min(cell.m, std::clamp(kMaxFloats / cell.ldc, kMinRows, kRows));
  cell.n = std::min(cell.n, kColumns);
  cell.k = std::min(cell.k, kDepth);
  return cell;
}

std::vector<ProductKernel> kernels_for(const Product<float>& p) {
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  std::vector out{ProductKernel::kOneDnn, ProductKernel::kOwn};
  if (has_mkl() && std::max({p.m, p.n, p.k, p.lda, p.ldb, p.ldc}) <= kMax)
    out.push_back(ProductKernel::kMkl);
  return out;
}

std::vector<ProductKernel> kernels_for(const Product<BFloat16>&) {
  if (!multiplies_bf16()) return {ProductKernel::kOwn};
  return {ProductKernel::kOneDnn, ProductKernel::kOwn};
}

template <class T>
double seconds_of(ProductKernel kernel, const Product<T>& p, float* scratch) {
  const double begin = cpu_seconds();
  if constexpr (std::is_same_v<T, float>)
    if (kernel == ProductKernel::kMkl) mkl_product(p);
  if (kernel == ProductKernel::kOneDnn) library_product(p);
  if (kernel == ProductKernel::kOwn) packed_product(p, scratch);
  return cpu_seconds() - begin;
}

/// Times the kernels in turns.
template <class T>
ProductKernel fastest(const std::string& shape, const Product<T>& cell, ProductKernel usual,
                      const std::vector<ProductKernel>& kernels) {
  Product<T> p = sample_of(cell);
  const Scratch scratch(p);
  p.c = scratch.c.get();
  std::map<ProductKernel, double> seconds;
  for (int i = 0; i <= kRepeats; ++i)
    for (const ProductKernel kernel : kernels) {
      const double taken = seconds_of(kernel, p, scratch.packed.as<float>().data());
      if (i == 0) continue;  // it touched the operands
      double& least = seconds.try_emplace(kernel, taken).first->second;
      least = std::min(least, taken);
    }
  ProductKernel out = usual;
  std::string others;
  for (const auto& [kernel, taken] : seconds) {
    if (taken < kMuchFaster * seconds[usual] && taken < seconds[out]) out = kernel;
    if (kernel != usual)
      others += fmt::format(", {} takes {:.3f}", name_of(kernel), taken / seconds[usual]);
  }
  log_info("product {}: {} computes it (of {}'s time{}; another kernel is chosen below {})", shape,
           name_of(out), name_of(usual), others, kMuchFaster);
  return out;
}

template <class T>
std::string text_of(const Product<T>& p) {
  std::string out = fmt::format("{} x {} x {}", p.m, p.n, p.k);
  if (p.transpose_a) out += ", a transposed";
  if (p.transpose_b) out += ", b transposed";
  if (p.add) out += ", added";
  if (kType<T> != DType::kF32) out += p.wide ? ", bf16 to fp32" : ", bf16";
  return out;
}

}  // namespace

ProductChooser::ProductChooser(const std::string& cpu, const std::vector<std::string>& folders) {
  std::string basis = fmt::format("{}, {}, our kernel 4", cpu, library_version());
  if (has_mkl()) basis += ", " + mkl_version();
  for (const std::string& folder : folders)
    files_.push_back(std::make_unique<GemmCache>(folder, basis));
}

template <class T>
ProductKernel ProductChooser::choose(const Product<T>& p, ProductKernel usual) {
  if (!is_timed(p.m, p.n, p.k)) return usual;
  const Shape key{kType<T>, p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.add, p.wide};
  const std::lock_guard lock(mutex_);
  const auto found = chosen_.find(key);
  if (found != chosen_.end()) return found->second;
  const std::vector<ProductKernel> kernels = kernels_for(p);
  if (kernels.size() == 1) return chosen_.emplace(key, usual).first->second;

  const std::string shape = text_of(p);
  std::string choice;
  for (const auto& file : files_)
    if (choice.empty()) choice = file->find(shape).value_or("");
  if (choice.empty()) choice = name_of(fastest(shape, p, usual, kernels));
  for (auto file = files_.rbegin(); file != files_.rend(); ++file)
    choice = (*file)->keep(shape, choice);
  ProductKernel out = usual;
  for (const ProductKernel kernel : kernels)
    if (name_of(kernel) == choice) out = kernel;
  return chosen_.emplace(key, out).first->second;
}

template ProductKernel ProductChooser::choose(const Product<float>&, ProductKernel);
template ProductKernel ProductChooser::choose(const Product<BFloat16>&, ProductKernel);

namespace {

std::atomic<ProductChooser*> current = nullptr;

/// Keeps the choosers, because another thread may still use the one before.
void keep(std::unique_ptr<ProductChooser> chooser) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<ProductChooser>> all;
  const std::lock_guard lock(mutex);
  current = chooser.get();
  all.push_back(std::move(chooser));
}

}  // namespace

ProductChooser* product_chooser() {
  return current;
}

}  // namespace hgt::cpu

namespace hgt {

void choose_cpu_products(const std::string& cpu, const std::string& run_dir) {
  cpu::keep(std::make_unique<cpu::ProductChooser>(cpu, std::vector{run_dir, gemm_cache_folder()}));
}

}  // namespace hgt
