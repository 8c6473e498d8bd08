#include "mean_loss.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "hgtrain/config/config.h"
#include "hgtrain/parallel/range.h"

#include "batch_loader.h"

namespace hgt {

double mean_loss(const Evaluation& e, std::int64_t samples) {
  const std::int64_t rows = e.config.batch.micro_batch_size;
  std::vector<double> losses(static_cast<std::size_t>((samples + rows - 1) / rows));
  const Range mine = even_range(std::ssize(losses), e.shares, e.share);
  Batch batch;
  for (std::int64_t micro = mine.begin; micro < mine.end; micro += e.round) {
    ++e.progress.work;
    const Range micros{micro, std::min(micro + e.round, mine.end)};
    const Range range{micros.begin * rows, std::min(micros.end * rows, samples)};
    read_batch(e.data, 0, range, e.form, batch);
    e.batch.load(batch, {});
    e.evaluate(range.size());
    if (e.has_losses)
      e.stream.copy(&losses[static_cast<std::size_t>(micro)], e.loss_sums.data(),
                    static_cast<std::size_t>(micros.size()) * sizeof(double));
    e.stream.synchronize();
  }
  const std::int64_t largest_share = even_range(std::ssize(losses), e.shares, 0).size();
  for (std::int64_t i = mine.size(); i < largest_share; ++i) e.evaluate(0);
  e.groups.world->all_reduce_sum(std::span(losses));
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(samples * e.config.training.seq_length);
}

}  // namespace hgt
