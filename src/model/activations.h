#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "hgtrain/arch/memory.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The memory of a model's activations, allocated as arch/memory.h plans it.
class Activations {
 public:
  Activations(const ModelConfig& model, const ActivationSizes& sizes, Device device);

  /// The tensor of that name with a shape of the current batch, which must fit the planned one. Its
  /// memory starts on a cache line. Error(kInternal) if there is no such name, copy or space.
  Tensor get(std::string_view name, std::int64_t copy,
             std::initializer_list<std::int64_t> shape) const;
  /// Likewise a layer's tensor: its own, or the one that recomputed layers share.
  Tensor of_layer(std::string_view name, std::int64_t slot, std::int64_t layer,
                  std::initializer_list<std::int64_t> shape) const;

 private:
  struct Entry {
    Buffer buffer;
    std::int64_t copies = 0;
    DType dtype = DType::kF32;
    std::int64_t shared_layers = 0;
  };
  const Entry& entry(std::string_view name) const;
  std::map<std::string, Entry, std::less<>> entries_;
  std::int64_t layers_;
};

}  // namespace hgt
