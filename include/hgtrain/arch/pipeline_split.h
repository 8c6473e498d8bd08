#pragma once

#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

struct Config;

/// The blocks of each stage of the config's pipeline or, if it is interleaved, of each virtual
/// stage v, which is stage v % P's: the first has the embedding, the last one the head. One between
/// them without a layer has a block of its own, which has no parameters and hands on what it gets;
/// its number, L + 2 + v of L layers, is above those of the model's blocks. The layers are those of
/// pipeline_layer_split or, if it is empty, split so that the stage with the most floating-point
/// operations, those of embedding and head counted, has as few as possible, and so has, of the
/// splits that are equal in this, the virtual stage with the most. If it is interleaved and layers
/// have different windows, it is one from which no layer can move to such an effect. Error(kConfig)
/// if the split does not fit the model or the number of stages, or if there is none and a (virtual)
/// stage between the first and the last would have no layer.
std::vector<Range> pipeline_blocks(const Config& config);

/// The share of a step's time for which the stages of this pipeline wait for each other, if blocks
/// take as long as their operations say and nothing else takes time.
double pipeline_idle_share(const Config& config);

}  // namespace hgt
