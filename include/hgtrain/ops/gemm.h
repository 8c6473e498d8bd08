#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// c = alpha a b + beta c.
///
///   a [M, K], b [K, N], c [M, N]  K > 0; each has stride 1 in one dimension and any in the other,
///                                 so a transposed view gives a transposed product
///   beta = 0 overwrites c without use of its old values. c overlaps neither a nor b.
///
/// All are fp32; or a and b are bf16 or fp16, c is of their type or fp32, alpha = 1, and beta = 0,
/// or 1 if c is fp32. Sums are computed in fp32 and rounded once.
///
/// The result is bit-identical from run to run for the same shapes, strides and number of threads,
/// and on a deterministic pool for any number of threads. Throws Error(kInternal) if shapes or
/// strides disagree.
void gemm(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
          Stream stream);

/// How algorithms are chosen for the products that the queue computes first from now on. At first,
/// products are timed (kTimed): another run has the same bits only if it finds the file of
/// choices. With kNone, the algorithm follows from the operands, the device and cuBLAS's version
/// alone.
void set_product_timing(const CudaQueue& queue, ProductTiming timing);

/// Of the products that a queue has run, each shape once.
struct ProductCounts {
  std::int64_t chosen = 0;   ///< by timing
  std::int64_t unfused = 0;  ///< of those, with kernels of our own for bias, GELU or bias gradient
  std::int64_t untimed = 0;  ///< for lack of memory, or because the time for it was over
};
/// Which algorithms were chosen by timing.
struct ProductChoices {
  std::string valid_for;  ///< the kind of GPU and cuBLAS's version
  std::string text;       ///< for use_product_choices
  ProductCounts counts;
};
/// The choices for the products that the queue has run.
ProductChoices product_choices(const CudaQueue& queue);
/// From now on, the products in the text of another process are computed as that one chose, on all
/// queues of the device that have not run them yet. Returns how many there are: none if the text is
/// damaged, or valid for something else than this GPU. With kNone, nothing changes.
std::int64_t use_product_choices(const CudaQueue& queue, const std::string& text);

/// From now on, the CPU computes large products of fp32 and bf16 with the fastest of oneDNN's
/// kernel, our own and, for fp32, that of Intel's MKL if it is installed, unless the pool is
/// deterministic. It times them when it first computes a product of a shape on that number of
/// threads, which takes some 50 ms. The choice is kept in `run_dir` (unless that is "") and in the
/// user's cache folder, so that another run has the same bits; choices in `run_dir` take
/// precedence. `cpu` is the CPU's name, for the files. No thread may compute a product meanwhile.
void choose_cpu_products(const std::string& cpu, const std::string& run_dir);

/// What computes c = a b, or c += a b if beta is 1, on this pool: "oneDNN", "own" or "MKL".
std::string_view cpu_product_kernel(const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                                    ThreadPool& pool);

/// Whether this CPU multiplies matrices of this type at least as fast as those of fp32. If not,
/// operands are widened to fp32 while they are packed, so that products take as long as fp32's.
bool cpu_multiplies(DType dtype);

}  // namespace hgt
