#pragma once

#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A weight product: `weight` is [in, out], however the file stores it; `bias` may be none.
struct Linear {
  Tensor weight, bias;
};

/// Gain and, for a layer norm, bias.
struct Norm {
  Tensor gain, bias;
};

struct LayerWeights {
  Norm norm1;
  Linear qkv;  ///< columns: the heads of q, of k, of v
  Tensor query_norm, key_norm;
  Linear out;
  Norm norm2;
  Linear up;  ///< columns: gate, then up, if the MLP is gated
  Linear down;
};

/// Views of the blocks' tensors, by their role in the computation. These hold the parameters or, in
/// the same places, their gradients.
struct Weights {
  Tensor tokens;     ///< [V, C]
  Tensor positions;  ///< [P, C] or none
  std::vector<LayerWeights> layers;
  Norm final_norm;
  Tensor output;  ///< [C, V]; in a tied model the token embedding, transposed
};

/// `blocks`: each block's part of the flat layout.
Weights bind_weights(const ModelConfig& model, const ParameterTable& table,
                     const std::vector<Tensor>& blocks);

/// Error(kConfig) if the model has learned positions for fewer than `length` tokens.
void check_positions(const ModelConfig& model, std::int64_t length);

}  // namespace hgt
