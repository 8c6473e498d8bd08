#include "hgtrain/arch/shared_memory.h"

#include <algorithm>

#include "hgtrain/config/config.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/parallel/shared_pieces.h"

namespace hgt {

SharedMemory shared_memory(const Config& config, int stage) {
  const Layout layout = layout_of(config);
  SharedMemory out;
  if (layout.world_size() == 1 || config.hardware.device == "cuda" ||
      config.distributed.backend != "auto")
    return out;
  const auto add = [&](int ranks, int senders, std::int64_t message) {
    if (ranks == 1) return;
    const std::int64_t bytes = senders * kSharedTurns * std::min(kSharedPieceBytes, message);
    out.mapped += bytes;
    out.share += bytes / ranks;
  };
  const ModelConfig& m = config.model;
  const auto element = static_cast<std::int64_t>(size_of(config.precision.compute_dtype()));
  const std::int64_t rows =
      config.batch.micro_batch_size * (config.training.seq_length / layout.context_size);
  const std::int64_t hidden = rows * m.hidden_size * element;
  add(layout.group_size(), layout.group_size(), kSharedPieceBytes);  // gradients
  add(layout.context_size, layout.context_size,
      rows * 2 * (m.num_key_value_heads / layout.tensor_size) * m.head_dim * element);
  add(layout.tensor_size, layout.tensor_size, hidden);
  if (config.checkpoint.async_save)  // tensor ranks put matrices together
    add(layout.tensor_size, layout.tensor_size, kSharedPieceBytes);
  const int last = layout.pipeline_size - 1;
  const bool ring = layout.virtual_stages > 1, is_first = stage == 0, is_last = stage == last;
  for (const bool is_end : {is_first, is_last}) {  // with the stage before, and the one after
    if (last == 0 || (is_end && !ring)) continue;
    add(2, 1, hidden);  // outputs
    add(2, 1, hidden);  // gradients
  }
  if (last > 0 && m.tie_word_embeddings && (is_first || is_last)) add(2, 2, kSharedPieceBytes);
  return out;
}

}  // namespace hgt
