#pragma once

#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

struct Config;

/// The blocks of each stage of the config's pipeline or, if it is interleaved, of each virtual
/// stage v, which is stage v % P's: the first has the embedding, the last one the head. The layers
/// are those of pipeline_layer_split or, if it is empty, split so that the stage with the most
/// floating-point operations, those of the head counted, has as few as possible; if it is
/// interleaved, layers count as equal there, and a stage's are spread over its virtual stages.
/// Error(kConfig) if the split does not fit the model or the number of stages, or if a (virtual)
/// stage between the first and the last would have no layer.
std::vector<Range> pipeline_blocks(const Config& config);

}  // namespace hgt
