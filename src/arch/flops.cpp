#include "hgtrain/arch/flops.h"

#include "hgtrain/arch/activations.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

namespace hgt {
namespace {

/// The mean number of keys that a query of a causal sequence sees.
double mean_keys(std::int64_t seq_length, std::int64_t window) {
  const double length = static_cast<double>(seq_length), w = static_cast<double>(window);
  return window == 0 || window >= seq_length ? length / 2 : w - w * w / (2 * length);
}

/// Like block_times, if the model's first layers are recomputed.
std::vector<BlockTime> times_of(const ModelConfig& m, std::int64_t seq_length,
                                std::int64_t recomputed_layers) {
  const double width = static_cast<double>(m.hidden_size);
  const double q = static_cast<double>(m.num_attention_heads * m.head_dim);
  const double k = static_cast<double>(m.num_key_value_heads * m.head_dim);
  const double products = family_of(m).gated_mlp ? 3 : 2;
  const double layer =
      width * (2 * q + 2 * k) + products * width * static_cast<double>(m.intermediate_size);
  std::vector<BlockTime> out = {{}};
  for (std::int64_t i = 0; i < m.num_hidden_layers; ++i) {
    const double keys = mean_keys(
        seq_length, m.layer_windows.empty() ? 0 : m.layer_windows[static_cast<std::size_t>(i)]);
    const double forward = 2 * layer + 4 * q * keys;
    const double again = i < recomputed_layers ? forward : 0;
    out.push_back({forward, 2 * layer + 8 * q * keys + again, 2 * layer});
  }
  out.push_back({6 * static_cast<double>(m.vocab_size) * width, 0, 0});
  return out;
}

}  // namespace

std::vector<BlockTime> block_times(const Config& config) {
  const ActivationSizes sizes = activation_sizes(config);
  return times_of(config.model, sizes.seq_length,
                  sizes.recompute == Recompute::kFull ? sizes.recomputed_layers : 0);
}

double train_flops(const ModelConfig& m, std::int64_t seq_length, std::int64_t tokens) {
  double of_token = 0;
  for (const BlockTime& block : times_of(m, seq_length, 0)) of_token += block.sum();
  return static_cast<double>(tokens) * of_token;
}

}  // namespace hgt
