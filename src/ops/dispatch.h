#pragma once

// What each op's x.cpp needs: checks of the operands, spans for traces, and the arguments of the
// CUDA module's op.

#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/run_cuda.h"
#include "hgtrain/tensor/tensor.h"

#include "cpu/kernels.h"

namespace hgt {

/// The checks of one op: each throws Error(kInternal) with the op's name if a tensor is not what
/// the op's header requires.
class Checks {
 public:
  Checks(const char* op, const Stream& stream) : op_(op), device_(stream.device()) {}

  /// x must be on the stream's device, of this dtype and shape, the last dimension without gaps.
  void shape(const char* name, const Tensor& x, std::initializer_list<std::int64_t> shape,
             DType dtype = DType::kF32) const {
    bool same = x.rank() == static_cast<int>(shape.size()) && x.dtype() == dtype;
    int dim = 0;
    for (const std::int64_t size : shape) same = same && x.size(dim++) == size;
    if (!same || (x.numel() > 0 && !x))
      fail(fmt::format("{} is {}, expected {} [{}]", name, describe(x), name_of(dtype),
                       fmt::join(shape, ", ")));
    device(name, x);
    if (x.rank() > 0 && x.size(-1) > 1 && x.stride(-1) != 1)
      fail(fmt::format("the last dimension of {} has gaps", name));
  }

  /// Likewise, without gaps anywhere.
  void contiguous(const char* name, const Tensor& x, std::initializer_list<std::int64_t> shape,
                  DType dtype = DType::kF32) const {
    this->shape(name, x, shape, dtype);
    that(x.contiguous(), name, "has gaps");
  }

  void device(const char* name, const Tensor& x) const {
    if (x.device() != device_)
      fail(fmt::format("{} lies on {}, the op runs on {}", name, name_of(x.device()),
                       name_of(device_)));
  }

  /// x must be fp32, bf16 or fp16.
  void compute_dtype(const char* name, const Tensor& x) const {
    that(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16 || x.dtype() == DType::kF16, name,
         "is neither fp32 nor bf16 nor fp16");
  }

  /// `ids` must be [B, T] int32 with token t's in [0, limit(t)], or no tensor. The values are
  /// checked on the CPU only.
  template <class Limit>
  void position_ids(const Tensor& ids, std::int64_t batch, std::int64_t length,
                    const Limit& limit) const {
    if (!ids) return;
    contiguous("position_ids", ids, {batch, length}, DType::kI32);
    if (!device_.is_cpu()) return;
    const std::int32_t* const values = ids.data<std::int32_t>();
    for (std::int64_t n = 0; n < batch * length; ++n)
      that(values[n] >= 0 && values[n] <= limit(n % length), "position_ids", "are out of range");
  }

  void rank(const char* name, const Tensor& x, int rank) const {
    that(x.rank() == rank, name, "has the wrong number of dimensions");
  }

  void that(bool holds, const char* name, const char* complaint) const {
    if (!holds) fail(fmt::format("{} {}", name, complaint));
  }

 private:
  static std::string describe(const Tensor& x) {
    std::string text = fmt::format("{} [", name_of(x.dtype()));
    for (int i = 0; i < x.rank(); ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", x.size(i));
    return text + "]";
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInternal, fmt::format("{}: {}", op_, what));
  }
  const char* op_;
  Device device_;
};

// ---- spans, which begin once the operands are checked ----

/// The work of an op that passes over these operands once. Pass an operand twice if it is read and
/// written.
template <class... Tensors>
Work traffic(const Tensors&... operands) {
  const auto bytes = [](const Tensor& x) {
    return x ? static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype())) : 0.0;
  };
  return {.bytes = (bytes(operands) + ...)};
}

/// The work of the product of a [M, K] and b [K, N].
inline Work product_work(const Tensor& a, const Tensor& b) {
  return {.flops = 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(1))};
}

// ---- arguments of the CUDA module's ops ----

/// The rows of the heads of x [N, C] or [N, H, C], or of no tensor.
template <class T = const void>
HeadRows<T> head_rows(const Tensor& x) {
  if (!x) return {};
  return {x.raw(), x.stride(0), x.rank() == 3 ? x.stride(1) : 0};
}

template <class T = const void>
Heads<T> heads(const Tensor& x) {
  return {x.raw(), x.stride(0), x.stride(1), x.stride(2)};
}

inline DropoutArgs dropout_args(const Dropout& dropout) {
  return {dropout.probability, dropout.seed, dropout.samples, dropout.site};
}

/// The CUDA module's arguments for c = alpha a b + beta c, without an epilogue. Throws
/// Error(kInternal) if the operands are not what hgtrain/ops/gemm.h requires, on the CPU too.
GemmArgs gemm_args(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                   Stream stream);

}  // namespace hgt
