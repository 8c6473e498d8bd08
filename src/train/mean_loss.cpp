#include "mean_loss.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "hgtrain/config/config.h"
#include "hgtrain/parallel/range.h"

#include "batch_loader.h"

namespace hgt {

double mean_loss(const Evaluation& evaluation, std::int64_t samples) {
  const auto& [config, groups, form, share, shares, has_losses, stream, data, device_batch,
               loss_sum, progress, evaluate] = evaluation;
  const std::int64_t rows = config.batch.micro_batch_size;
  std::vector<double> losses(static_cast<std::size_t>((samples + rows - 1) / rows));
  const Range mine = even_range(std::ssize(losses), shares, share);
  const std::int64_t most = even_range(std::ssize(losses), shares, 0).size();
  Batch batch;
  for (std::int64_t micro = mine.begin; micro < mine.end; ++micro) {
    ++progress.work;
    const Range range{micro * rows, std::min((micro + 1) * rows, samples)};
    read_batch(data, 0, range, form, batch);
    device_batch.load(batch, {});
    const MicroBatch micro_batch = device_batch.stage_micro_batch(0, range.size());
    evaluate(&micro_batch);
    if (has_losses)
      stream.copy(&losses[static_cast<std::size_t>(micro)], loss_sum.data(), sizeof(double));
    stream.synchronize();
  }
  for (std::int64_t i = mine.size(); i < most; ++i) evaluate(nullptr);
  groups.world->all_reduce_sum(std::span(losses));
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(samples * config.training.seq_length);
}

}  // namespace hgt
