#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/config/model_config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The frequencies with which a head's D / 2 pairs rotate, and the factor on cos and sin.
struct RopeFrequencies {
  std::vector<float> inverse;  ///< [D / 2], radians a position
  float factor = 1;
};

/// HF's formulas (transformers/modeling_rope_utils.py): default, linear, dynamic (NTK by parts of a
/// sequence longer than max_position_embeddings), llama3, yarn. Computed in fp32 if HF does so, so
/// that the angles of far positions agree. Error(kConfig) for longrope and unknown types.
RopeFrequencies rope_frequencies(const ModelConfig& model, std::int64_t seq_length);

/// cos and sin of the positions [0, capacity) of a model with rotary embeddings, on a device.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const ModelConfig& model, std::int64_t capacity, Stream stream);

  /// Prepares the table for a sequence of `seq_length` tokens; does nothing unless the scaling
  /// depends on that ("dynamic").
  void prepare(std::int64_t seq_length, Stream stream);

  /// [end - begin, D / 2], the rows of positions [begin, end).
  Tensor cos(std::int64_t begin, std::int64_t end) const;
  Tensor sin(std::int64_t begin, std::int64_t end) const;

 private:
  void fill(std::int64_t seq_length, Stream stream);
  Tensor rows(const Buffer& table, std::int64_t begin, std::int64_t end) const;
  ModelConfig model_;
  std::int64_t capacity_ = 0;
  std::int64_t filled_for_ = 0;  ///< the sequence length, for a dynamic scaling
  Buffer cos_, sin_;
};

}  // namespace hgt
