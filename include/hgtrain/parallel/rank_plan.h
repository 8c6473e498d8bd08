#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/parallel/layout.h"
#include "hgtrain/parallel/schedule.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

struct Config;
struct ParallelismConfig;

/// What one rank of a job does in a step and which part of the model's state it keeps. It follows
/// from the config, the model's blocks and the number of ranks alone.
struct RankPlan {
  Layout layout;
  Coordinates at;
  Range micro_batches;  ///< those of the step's micro-batches that the rank computes
  Sharding sharding;    ///< of the blocks of its pipeline stage, over Layout::group_size() ranks
  StepShape shape;
  Schedule schedule;

  int group_rank() const { return layout.group_rank(at); }  ///< among the ranks that share shards
  int group_size() const { return sharding.ranks(); }
  int stage() const { return shape.stage; }
  /// Several ranks may compute the losses of the same micro-batches; one of them counts them.
  bool gives_losses() const { return shape.pipeline.is_last() && at.tensor == 0; }
  /// How many elements the rank's blocks have.
  std::int64_t elements() const { return shape.units.back().place().end; }
  /// All elements of the rank's blocks: a slice for each range of blocks.
  std::vector<Slice> all_slices() const;
  /// What the rank owns: it saves these slices and, from stage 1 on, updates no others.
  std::span<const Slice> slices() const { return sharding.slices(group_rank()); }
  /// What the rank updates: in stage 0 all of its blocks.
  std::vector<Slice> updated_slices() const;
};

/// The number of data-parallel ranks for which the config's batch was resolved; 1 if it was not.
int ranks_of(const Config& config);

/// The layout of the workers for which the config's batch was resolved.
Layout layout_of(const Config& config);

/// The schedule that the config names.
PipelineSchedule pipeline_schedule(const ParallelismConfig& config);

/// The number of gradients in one sum, which overlaps with the backward pass. On GPUs it is that of
/// Megatron-LM, because small sums do not reach the rate of large ones; on the CPU it is 16 MiB of
/// gradients.
std::int64_t default_unit_elements(bool on_cpu, int ranks);

/// `blocks`: the elements of the model's blocks in the flat layout, ascending without gaps. `tied`:
/// the head uses the parameters of block 0. `unit_elements`: 0 takes the default, which the
/// config's bucket sizes may lower. `stages`: the blocks of each pipeline stage or, if the pipeline
/// is interleaved, of each virtual stage, of which stage s has s, s + P, ... with P stages; empty
/// if there is one stage. `rank` counts the ranks of the job. Error(kConfig) if they cannot be laid
/// out.
RankPlan plan_rank(const Config& config, std::span<const Range> blocks, bool tied, int rank,
                   int ranks, std::int64_t unit_elements = 0, std::span<const Range> stages = {});
/// The same for a place in a layout, if a step has `micro_batches`.
RankPlan plan_rank(const Config& config, std::span<const Range> blocks, bool tied,
                   const Layout& layout, const Coordinates& at, std::int64_t micro_batches,
                   std::int64_t unit_elements = 0, std::span<const Range> stages = {});

}  // namespace hgt
