#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/device.h"

namespace hgt {

/// A view of elements in memory that somebody else owns: dtype, device, up to five sizes with
/// strides in elements. Copying a Tensor copies the view. A const Tensor can still write its
/// elements, as a constant pointer can. It does no arithmetic: ops do.
///
/// A wrong rank, bound or dtype is the caller's bug: Error(kInternal).
class Tensor {
 public:
  static constexpr int kMaxRank = 5;

  /// No tensor: an op gets it for an optional operand that is absent.
  Tensor() = default;
  /// Contiguous, row-major.
  Tensor(void* data, std::span<const std::int64_t> shape, DType dtype = DType::kF32,
         Device device = Device::cpu());
  Tensor(void* data, std::initializer_list<std::int64_t> shape, DType dtype = DType::kF32,
         Device device = Device::cpu())
      : Tensor(data, std::span(shape.begin(), shape.size()), dtype, device) {}

  explicit operator bool() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int rank() const { return rank_; }
  /// Size and stride (in elements) of a dimension; negative ones count from the last.
  std::int64_t size(int dim) const { return sizes_[at(dim)]; }
  std::int64_t stride(int dim) const { return strides_[at(dim)]; }
  std::int64_t numel() const;
  /// The bytes of its elements, without gaps.
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  /// Row-major without gaps.
  bool contiguous() const;

  /// The first element. T must be the dtype's: float, double, std::int32_t, std::uint16_t (bf16,
  /// fp16) and so on.
  template <class T>
  T* data() const {
    check_element(sizeof(T), std::is_floating_point_v<T>);
    return static_cast<T*>(data_);
  }

  /// The address of the first element, for any dtype; null if there is no tensor.
  void* raw() const { return data_; }

  /// Elements [begin, end) of a dimension.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  /// The last two dimensions swapped.
  Tensor transposed() const;
  /// One dimension as two, of sizes (`outer`, size / outer). Works on any strides.
  Tensor split(int dim, std::int64_t outer) const;
  /// The same elements with other sizes; contiguous tensors only.
  Tensor reshaped(std::initializer_list<std::int64_t> shape) const;

 private:
  std::size_t at(int dim) const;
  void check_element(std::size_t bytes, bool floating) const;

  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Device device_;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

}  // namespace hgt
