#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/ops/dropout.h"
#include "hgtrain/ops/flat_piece.h"

#include "reference.h"
#include "support/roots.h"
#include "support/temporary_folder.h"

// Tests named "CUDA: ..." compare each op on a CUDA device, a real or an emulated one
// (tests/emulation), with the same op on the CPU, in odd sizes. Without a device nothing is
// compared. A test's tag is the kernels' file: src/ops/cuda/<tag>.cu.

namespace on_device {

using namespace hgt;

using Shape = std::vector<std::int64_t>;

inline constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

/// The built module if it finds a device, else null.
inline const CudaModule* module_with_device() {
  static const TemporaryFolder caches;  // nobody else's, so every run times its products
  static const std::unique_ptr<CudaModule> module = [] {
    setenv("XDG_CACHE_HOME", caches.path().c_str(), 1);
    CudaModule::Search search = CudaModule::default_search();
    search.module_folders.push_back(build_root());
    auto opened = std::make_unique<CudaModule>(search);
    if (opened->probe().device_count == 0) opened.reset();
    return opened;
  }();
  return module.get();
}

/// The bytes of an operand's elements.
struct Operand {
  std::vector<std::byte> bytes;
  Shape shape;
  DType dtype;

  Tensor on_cpu() { return Tensor(bytes.data(), shape, dtype); }

  /// Elements of a compute dtype.
  Floats floats() const {
    Floats out(bytes.size() / size_of(dtype));
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (dtype == DType::kF32)
        out[i] = at<float>(i);
      else
        out[i] = dtype == DType::kBF16 ? float(at<BFloat16>(i)) : float(at<Half>(i));
    }
    return out;
  }
  template <class T>
  T at(std::size_t i) const {
    T out;
    std::memcpy(&out, bytes.data() + i * sizeof(T), sizeof(T));
    return out;
  }
};

template <class T, class Values>
Operand stored(const Values& values, const Shape& shape, DType dtype) {
  const std::vector<T> elements(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(elements));
  return {{bytes.begin(), bytes.end()}, shape, dtype};
}

inline Operand floats(const Floats& values, const Shape& shape, DType dtype = DType::kF32) {
  if (dtype == DType::kBF16) return stored<BFloat16>(values, shape, dtype);
  if (dtype == DType::kF16) return stored<Half>(values, shape, dtype);
  return stored<float>(values, shape, dtype);
}

inline std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

inline Operand normal(const Shape& shape, std::uint64_t seed, float scale = 1,
                      DType dtype = DType::kF32) {
  return floats(random_floats(count_of(shape), seed, scale), shape, dtype);
}

/// Device memory with a copy of an operand.
class DeviceCopy {
 public:
  DeviceCopy(const CudaQueue& queue, const Operand& operand) : queue_(queue), like_(operand) {
    check(queue.module().device().allocate(0, operand.bytes.size(), &memory_));
    queue.copy(memory_, operand.bytes.data(), operand.bytes.size());
    tensor = Tensor(memory_, operand.shape, operand.dtype, queue.device());
  }
  ~DeviceCopy() { (void)queue_.module().device().release(0, memory_); }
  Operand read() const {
    Operand out = like_;
    queue_.copy(out.bytes.data(), memory_, out.bytes.size());
    queue_.synchronize();
    return out;
  }
  Tensor tensor;

 private:
  const CudaQueue& queue_;
  Operand like_;
  void* memory_ = nullptr;
};

/// Pieces in device memory.
class PiecesOnDevice {
 public:
  PiecesOnDevice(const CudaQueue& queue, const std::vector<FlatPiece>& pieces)
      : memory_("pieces", std::ssize(pieces) * static_cast<std::int64_t>(sizeof(FlatPiece)),
                queue.device()) {
    queue.copy(memory_.data(), pieces.data(), static_cast<std::size_t>(memory_.bytes()));
    queue.synchronize();
  }
  const FlatPiece* data() const { return static_cast<const FlatPiece*>(memory_.data()); }

 private:
  Buffer memory_;
};

using Op = std::function<void(const std::vector<Tensor>&, Stream)>;

inline std::vector<Operand> run_on_device(const CudaQueue& queue,
                                          const std::vector<Operand>& operands, const Op& op) {
  std::vector<std::unique_ptr<DeviceCopy>> copies;
  std::vector<Tensor> tensors;
  for (const Operand& operand : operands) {
    copies.push_back(std::make_unique<DeviceCopy>(queue, operand));
    tensors.push_back(copies.back()->tensor);
  }
  op(tensors, Stream(queue));
  std::vector<Operand> results;
  for (const auto& copy : copies) results.push_back(copy->read());
  return results;
}

/// Numbers in [0, below), some of them `sometimes`.
inline Operand integers(const Shape& shape, std::int32_t below, std::int32_t sometimes) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count_of(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 7 == 3 ? sometimes : static_cast<std::int32_t>(i * i + 5) % below;
  return stored<std::int32_t>(values, shape, DType::kI32);
}

/// Positions of tokens in documents of `document` tokens; the last one of a row is cut off.
inline Operand document_positions(std::int64_t batch, std::int64_t length, std::int64_t document) {
  std::vector<std::int32_t> values;
  for (std::int64_t n = 0; n < batch * length; ++n)
    values.push_back(static_cast<std::int32_t>(n % length % document));
  return stored<std::int32_t>(values, {batch, length}, DType::kI32);
}

/// A SampleKey, for `key_in`.
inline Operand sample_key(int step, int first_sample) {
  return stored<std::int32_t>(std::vector{step, 0, first_sample, 0}, {4}, DType::kI32);
}
inline const SampleKey* key_in(const Tensor& x) {
  return reinterpret_cast<const SampleKey*>(x.data<std::int32_t>());
}

/// Half a unit in the last place, and the most by which sums of values rounded this way may differ.
inline double tolerance_of(DType dtype, double of_fp32) {
  return dtype == DType::kBF16 ? 1.6e-2 : dtype == DType::kF16 ? 2e-3 : of_fp32;
}

/// Runs the op on both devices with the same operands; all results must agree, and a second run on
/// the device must give the same bits.
inline void compare(const CudaQueue& queue, const std::vector<Operand>& operands, const Op& op,
                    double tolerance) {
  const std::vector<Operand> results = run_on_device(queue, operands, op);
  const std::vector<Operand> again = run_on_device(queue, operands, op);
  ThreadPool pool(1);
  std::vector<Operand> expected = operands;
  std::vector<Tensor> tensors;
  for (Operand& operand : expected) tensors.push_back(operand.on_cpu());
  op(tensors, Stream(pool));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("operand " << i << " in " << name_of(expected[i].dtype));
    CHECK(results[i].bytes == again[i].bytes);
    if (expected[i].dtype == DType::kI32) continue;
    CHECK(error_of(results[i].floats(), doubles(expected[i].floats())) < tolerance);
  }
}
inline void compare(const std::vector<Operand>& operands, const Op& op, double tolerance = 2e-5) {
  if (module_with_device() == nullptr) return;
  compare(CudaQueue(Device::cuda(0), *module_with_device()), operands, op, tolerance);
}

/// Likewise; of the operands from `first` on, each second result must have the bits of the one
/// before it.
inline void compare_pairs(const std::vector<Operand>& operands, std::size_t first, const Op& op,
                          double tolerance) {
  compare(operands, op, tolerance);
  if (module_with_device() == nullptr) return;
  const auto results =
      run_on_device(CudaQueue(Device::cuda(0), *module_with_device()), operands, op);
  for (std::size_t i = first; i < operands.size(); i += 2)
    CHECK(results[i].bytes == results[i + 1].bytes);
}

}  // namespace on_device
