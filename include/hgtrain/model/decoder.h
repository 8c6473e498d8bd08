#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Runs a model over one growing sequence for generation, and keeps keys and values of the tokens
/// so far. It computes what a Model's forward computes, without dropout.
///
/// `parameters` is a flat buffer laid out by the table, of the type to compute in (fp32, bf16 or
/// fp16) and on the stream's device; the caller owns it and keeps it as long as the decoder. Keys
/// and values have the same type and device: 4 K D bytes per token and layer in 16 bits. Everything
/// is allocated in `create`. Not thread-safe.
class Decoder {
 public:
  /// `max_length`: the most tokens that the sequence may have. Error(kConfig) if the model has
  /// fewer positions, or is not supported.
  static std::unique_ptr<Decoder> create(const ModelConfig& config, const ParameterTable& table,
                                         const Tensor& parameters, std::int64_t max_length,
                                         Stream stream);
  virtual ~Decoder() = default;

  virtual std::int64_t max_length() const = 0;
  /// The number of tokens so far.
  virtual std::int64_t length() const = 0;

  /// Appends tokens (a whole prompt, or the one just sampled) and returns the logits [V] of the
  /// token after the last one, in the parameters' type and on the stream's device, for use on the
  /// stream until the next call. At least one token; Error(kData) for one outside the vocabulary,
  /// Error(kConfig) if the sequence would exceed max_length; it is then unchanged.
  virtual Tensor append(std::span<const std::int32_t> tokens) = 0;

  /// Forgets the tokens from `length` on; 0 starts anew. `length` must not exceed length().
  virtual void truncate(std::int64_t length) = 0;
};

}  // namespace hgt
