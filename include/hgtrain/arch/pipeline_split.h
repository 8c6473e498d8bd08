#pragma once

#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

struct Config;

/// The blocks of each stage of the config's pipeline or, if it is interleaved, of each virtual
/// stage v, which belongs to stage v % P. The first has the embedding, the last the head. If one
/// between them has no layer, it gets a block of its own, which has no parameters and passes its
/// input through; that block has the number L + 2 + v, with L layers, which no block of the model
/// has. The layers are split as pipeline_layer_split says. If that is empty, the split is the one
/// whose busiest stage has the fewest floating-point operations, embedding and head included; among
/// equal splits, the one whose busiest virtual stage has the fewest. If the pipeline is interleaved
/// and layers have different windows, it is a split that moving one layer does not improve.
/// Error(kConfig) if the split does not fit the model or the number of stages, or if none is given
/// and a (virtual) stage between the first and the last would have no layer.
std::vector<Range> pipeline_blocks(const Config& config);

/// The share of a step's time for which the stages of this pipeline wait for each other, if blocks
/// take as long as their operations say and nothing else takes time.
double pipeline_idle_share(const Config& config);

}  // namespace hgt
