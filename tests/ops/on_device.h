#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "hgtrain/base/half.h"
#include "hgtrain/device/cuda_queue.h"

#include "reference.h"
#include "support/roots.h"
#include "support/temporary_folder.h"

// Runs ops on a CUDA device, a real or an emulated one (tests/emulation).

namespace on_device {

using namespace hgt;

using Shape = std::vector<std::int64_t>;

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

}  // namespace on_device
