#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hgtrain/arch/activations.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The memory of the activations of some ranges of a model's blocks, allocated as arch/memory.h
/// plans it. Slots are counted through all ranges; each range has as many as its period.
class Activations {
 public:
  Activations(const ModelConfig& model, std::vector<ActivationSizes> ranges, Device device);
  Activations(const ModelConfig& model, const ActivationSizes& sizes, Device device)
      : Activations(model, std::vector{sizes}, device) {}

 private:
  friend class BatchActivations;
  struct Entry {
    PlannedTensor plan;
    Buffer buffer;
  };
  /// The range of a slot, and the slot's number there.
  std::pair<std::size_t, std::int64_t> find_slot(std::int64_t slot) const;

  const ModelConfig model_;
  const std::vector<ActivationSizes> ranges_;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// The activations of one micro-batch, which may be smaller than the planned one, in a slot. Names
/// and shapes are those of activations_of() for its size.
class BatchActivations {
 public:
  /// `memory` outlives this object, which holds no memory of its own.
  BatchActivations(const Activations& memory, std::int64_t slot, std::int64_t batch,
                   std::int64_t seq_length);
  bool is_for(std::int64_t batch, std::int64_t seq_length) const {
    return batch == batch_ && seq_length == seq_length_;
  }

  bool has(std::string_view name) const { return shapes_.find(name) != shapes_.end(); }
  /// The tensor with this name for a layer of the slot's range: the layer's own, or the one that
  /// recomputed layers, or all layers, share. Error(kInternal) if there is none, or if the batch
  /// does not fit.
  Tensor of_layer(std::string_view name, std::int64_t layer) const;
  /// The slot's tensor, or the one that all slots share.
  Tensor get(std::string_view name) const { return of_layer(name, 0); }
  /// The same, but no tensor if there is none.
  Tensor find_of_layer(std::string_view name, std::int64_t layer) const {
    return has(name) && entry(name).plan.copy_of(range_, slot_, layer) >= 0 ? of_layer(name, layer)
                                                                            : Tensor();
  }
  Tensor find(std::string_view name) const { return find_of_layer(name, 0); }

 private:
  const Activations::Entry& entry(std::string_view name) const;

  const Activations* memory_;
  std::size_t range_;
  std::int64_t slot_;  ///< number in its range
  std::int64_t batch_, seq_length_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> shapes_;
};

}  // namespace hgt
