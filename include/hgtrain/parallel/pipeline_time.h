#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/parallel/range.h"
#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// How long a block computes for a micro-batch, in any unit.
struct BlockTime {
  double forward = 0, backward_input = 0, backward_weights = 0;

  double backward() const { return backward_input + backward_weights; }
  double sum() const { return forward + backward(); }
};

/// The share of a step's time for which a pipeline's stages wait for each other, on average, if
/// nothing but computing takes time: stage s has the blocks `stages[s]` or, with V virtual stages,
/// stages[s], stages[s + P] and so on, and block b takes `blocks[b]`. It follows from the
/// schedules' actions, of the first micro-batches if there are very many. If each of P stages takes
/// F, I and W for each of M micro-batches, it waits for
///
///   gpipe, 1f1b  (P - 1) (F + I + W)
///   interleaved  (P - 1) (F + I + W) / V, if all virtual stages take equally long and P divides M
///   zb_h1        (P - 1) (F + I) - (min(M, P) - 1) min(F, I, W)
///
/// Sources: Narayanan et al. 2021, arXiv:2104.04473, 2.2; Qi et al. 2023, arXiv:2401.10241, 2.3,
/// for M >= P and W <= F, I: (P - 1) (F + I - W).
double idle_share(PipelineSchedule schedule, std::span<const Range> stages,
                  std::int64_t micro_batches, std::span<const BlockTime> blocks,
                  std::int64_t virtual_stages = 1);

}  // namespace hgt
