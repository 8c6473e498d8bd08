#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hgtrain/config/config.h"

namespace hgt {

/// How a parameter starts: all zeros, all ones, or normal(0, std).
struct Init {
  enum Kind { kZeros, kOnes, kNormal } kind = kZeros;
  double std = 0.0;
};

/// One parameter under its HF name and shape, and its place in the flat buffers.
struct Parameter {
  std::string name;                 ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< HF's, row-major
  int block = 0;                    ///< 0 embedding, 1..L layers, L+1 head
  bool decay = true;                ///< weight decay applies
  Init init;
  std::int64_t numel = 0;
  std::int64_t offset = 0;  ///< elements from the start of the flat buffer
};

/// The parameter table: parameters ordered by decay group, then block, each start padded to
/// `kAlignment` elements. Parameters, gradients and optimizer state are flat buffers of `total` elements
/// laid out so. Neighbours that are computed together (q, k, v; gate, up) stand side by side unpadded,
/// so that one matrix product covers them.
struct ParameterTable {
  static constexpr std::int64_t kAlignment = 64;
  std::vector<Parameter> parameters;
  std::int64_t total = 0;        ///< elements of a flat buffer, padding included
  std::int64_t decay_end = 0;    ///< [0, decay_end) decays, [decay_end, total) does not
  std::int64_t num_parameters = 0;  ///< without padding

  const Parameter& find(const std::string& name) const;  ///< Error(kInternal) where there is none
};

ParameterTable parameter_table(const ModelConfig& model, bool no_decay_norms_and_biases);

/// A named allocation of a worker and its size in bytes: the memory table of `--dry_run`.
struct Allocation {
  std::string name;
  std::int64_t bytes = 0;
};

/// Everything a worker allocates for training, from config and layout alone.
std::vector<Allocation> memory_table(const Config& config, int threads);

/// Floating-point operations of one training step over `tokens` tokens (forward and backward, causal
/// attention counted by half; parallelism notes section 4.2: 6 per weight-product parameter and token).
double train_flops(const ModelConfig& model, std::int64_t seq_length, std::int64_t tokens);

}  // namespace hgt
