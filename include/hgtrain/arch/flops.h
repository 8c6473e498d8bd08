#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/parallel/pipeline_time.h"

namespace hgt {

struct Config;

/// The floating-point operations of each block in the forward and backward of a token, as
/// train_flops() counts them, and those of a layer that is wholly recomputed; 0 for the embedding.
/// All of the head's are in its forward.
std::vector<BlockTime> block_times(const Config& config);

/// Floating-point operations of one training step over `tokens` tokens: 6 per parameter of a weight
/// product and token, and 12 H D a layer and token times the mean number of keys a query sees (T /
/// 2 for full causal attention, as Megatron-LM counts it).
double train_flops(const ModelConfig& model, std::int64_t seq_length, std::int64_t tokens);

}  // namespace hgt
