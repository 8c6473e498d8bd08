#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/arch/split.h"
#include "hgtrain/parallel/range.h"

namespace hgt {

struct ModelConfig;

/// The initial values of a parameter: all zeros, all ones, or normal(0, std).
struct Init {
  enum Kind { kZeros, kOnes, kNormal } kind = kZeros;
  double std = 0.0;
};

/// The role of a parameter in the computation, independent of a family's names. A role of a block
/// may consist of several HF parameters (q, k, v; gate, up), which are adjacent and form one
/// matrix.
enum class Role {
  kTokens,     ///< [V, C] embedding
  kPositions,  ///< [P, C] learned positions
  kNorm1Gain,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kQueryNorm,  ///< [D] gain of the RMSNorm on each head of q
  kKeyNorm,
  kAttentionOutWeight,
  kAttentionOutBias,
  kNorm2Gain,
  kNorm2Bias,
  kUpWeight,  ///< gate and up if the MLP is gated
  kUpBias,
  kDownWeight,
  kDownBias,
  kFinalNormGain,
  kFinalNormBias,
  kOutput,  ///< [V, C]; absent if it is the token embedding itself
};

/// One parameter with its HF name and shape, and the place of a tensor rank's part of it in the
/// flat buffers: the same on all tensor ranks, because their parts have the same shape.
struct Parameter {
  std::string name;                 ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< HF's, row-major
  Role role = Role::kTokens;
  int block = 0;      ///< 0 embedding, 1..L layers, L+1 head
  bool decay = true;  ///< weight decay applies
  Init init;
  Split split = {};
  std::vector<std::int64_t> local_shape;  ///< of the part, padding included
  std::int64_t numel = 0;                 ///< of the part, padding included
  std::int64_t offset = 0;  ///< of the part: elements from the start of the flat buffer

  Placement placement(TensorRank at) const;
  /// The stream of the parameter's random numbers: a hash of its name.
  std::uint64_t random_stream() const;
};

/// The parameter table: parameters ordered by block and, inside a block, those that decay first;
/// each role's start is padded to `kAlignment` elements. Parameters, gradients and optimizer state
/// are flat buffers of `total` elements with this layout; padding stays zero. Every tensor rank has
/// the same table.
struct ParameterTable {
  static constexpr std::int64_t kAlignment = 64;
  std::vector<Parameter> parameters;
  std::int64_t total = 0;           ///< elements of a flat buffer, padding included
  std::int64_t num_parameters = 0;  ///< of the whole model, without padding

  int num_blocks() const { return parameters.empty() ? 0 : parameters.back().block + 1; }
  Range block(int number) const;      ///< its elements, padding included; blocks have no gaps
  std::vector<Range> blocks() const;  ///< those of all blocks

  const Parameter& find(const std::string& name) const;  ///< Error(kInternal) if there is none
  /// The first parameter of a role in a block, or null.
  const Parameter* find(int block, Role role) const;
  /// The rows of the token embedding, padding included, that each tensor rank has.
  std::int64_t vocabulary_rows() const;
};

/// Names, shapes and initial distributions of a family's parameters, as in transformers' modeling
/// files (`_init_weights`). Weight decay applies to all of them; with `no_decay_norms_and_biases`
/// not to norms and biases. Error(kConfig) if sizes are missing, do not fit each other, do not fit
/// the number of tensor ranks or overflow.
///
/// In memory, each rank's part of the vocabulary is padded to a multiple of `vocabulary_unit` rows.
ParameterTable parameter_table(const ModelConfig& model, bool no_decay_norms_and_biases,
                               int tensor_size = 1, std::int64_t vocabulary_unit = 1);

/// The model with the sizes of a tensor rank's part: its heads (of keys and values one at least),
/// its columns of the MLP, and its rows of the vocabulary, padding included.
ModelConfig tensor_part(ModelConfig model, int tensor_size, std::int64_t vocabulary_unit = 1);

/// Neighbours in the flat layout whose gradients tensor ranks with the same parameters compute in
/// parts: each from its own heads (the gains of q/k norms and, if there are fewer key/value heads
/// than ranks, what makes keys and values), or from its own rows, if they split them (gains and
/// biases of the other norms). `parts` of them differ.
struct PartialGradients {
  Range elements;
  std::int64_t parts = 1;
  bool operator==(const PartialGradients&) const = default;
};
std::vector<PartialGradients> partial_gradients(const ParameterTable& table, int tensor_size,
                                                bool split_rows);

}  // namespace hgt
