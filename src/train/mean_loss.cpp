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
               loss_sums, round, progress, evaluate] = evaluation;
  const std::int64_t rows = config.batch.micro_batch_size;
  std::vector<double> losses(static_cast<std::size_t>((samples + rows - 1) / rows));
  const Range mine = even_range(std::ssize(losses), shares, share);
  Batch batch;
  for (std::int64_t micro = mine.begin; micro < mine.end; micro += round) {
    ++progress.work;
    const Range micros{micro, std::min(micro + round, mine.end)};
    const Range range{micros.begin * rows, std::min(micros.end * rows, samples)};
    read_batch(data, 0, range, form, batch);
    device_batch.load(batch, {});
    evaluate(range.size());
    if (has_losses)
      stream.copy(&losses[static_cast<std::size_t>(micro)], loss_sums.data(),
                  static_cast<std::size_t>(micros.size()) * sizeof(double));
    stream.synchronize();
  }
  const std::int64_t most = even_range(std::ssize(losses), shares, 0).size();
  for (std::int64_t i = mine.size(); i < most; ++i) evaluate(0);
  groups.world->all_reduce_sum(std::span(losses));
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(samples * config.training.seq_length);
}

}  // namespace hgt
