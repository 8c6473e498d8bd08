#include "hgtrain/tensor/tensor.h"

#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInternal, "tensor: " + what);
}

bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64;
}

}  // namespace

Tensor::Tensor(void* data, std::span<const std::int64_t> shape, DType dtype, Device device)
    : data_(data), dtype_(dtype), device_(device), rank_(static_cast<int>(shape.size())) {
  if (rank_ > kMaxRank) fail(fmt::format("{} dimensions, at most {}", rank_, kMaxRank));
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) fail(fmt::format("a size of {}", shape[i]));
    sizes_[i] = shape[i];
    strides_[i] = stride;
    stride *= shape[i];
  }
}

std::size_t Tensor::at(int dim) const {
  const int index = dim < 0 ? dim + rank_ : dim;
  if (index < 0 || index >= rank_) fail(fmt::format("dimension {} of {}", dim, rank_));
  return static_cast<std::size_t>(index);
}

void Tensor::check_element(std::size_t bytes, bool floating) const {
  if (bytes != size_of(dtype_) || floating != is_floating(dtype_))
    fail(fmt::format("{} read as elements of {} bytes", name_of(dtype_), bytes));
}

std::int64_t Tensor::numel() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= size(i);
  return n;
}

bool Tensor::contiguous() const {
  std::int64_t expected = 1;
  for (int i = rank_ - 1; i >= 0; --i) {
    if (size(i) != 1 && stride(i) != expected) return false;
    expected *= size(i);
  }
  return true;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  const std::size_t d = at(dim);
  if (begin < 0 || begin > end || end > sizes_[d])
    fail(fmt::format("slice [{}, {}) of a size of {}", begin, end, sizes_[d]));
  Tensor out = *this;
  out.data_ = static_cast<std::byte*>(data_) +
              begin * strides_[d] * static_cast<std::int64_t>(size_of(dtype_));
  out.sizes_[d] = end - begin;
  return out;
}

Tensor Tensor::transposed() const {
  Tensor out = *this;
  std::swap(out.sizes_[at(-1)], out.sizes_[at(-2)]);
  std::swap(out.strides_[at(-1)], out.strides_[at(-2)]);
  return out;
}

Tensor Tensor::split(int dim, std::int64_t outer) const {
  const std::size_t d = at(dim);
  if (rank_ == kMaxRank || outer < 1 || sizes_[d] % outer != 0)
    fail(fmt::format("split of a size of {} into {} of {} dimensions", sizes_[d], outer, rank_));
  Tensor out = *this;
  for (std::size_t i = static_cast<std::size_t>(rank_); i > d + 1; --i) {
    out.sizes_[i] = sizes_[i - 1];
    out.strides_[i] = strides_[i - 1];
  }
  out.rank_ = rank_ + 1;
  out.sizes_[d] = outer;
  out.sizes_[d + 1] = sizes_[d] / outer;
  out.strides_[d] = strides_[d] * out.sizes_[d + 1];
  out.strides_[d + 1] = strides_[d];
  return out;
}

Tensor Tensor::reshaped(std::initializer_list<std::int64_t> shape) const {
  Tensor out(data_, shape, dtype_, device_);
  if (!contiguous() || out.numel() != numel())
    fail(fmt::format("reshape of {} elements to {}{}", numel(), out.numel(),
                     contiguous() ? "" : ", not contiguous"));
  return out;
}

}  // namespace hgt
