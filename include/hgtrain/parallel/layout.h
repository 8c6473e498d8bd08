#pragma once

#include <string>

namespace hgt {

struct ParallelismConfig;

/// Where a rank stands on the four axes.
struct Coordinates {
  int pipeline = 0;
  int data = 0;
  int context = 0;
  int tensor = 0;
  bool operator==(const Coordinates&) const = default;
};

/// How the ranks of a world lie on the axes: the tensor axis varies fastest, so that its groups are
/// neighbours on one machine, then context, then data, then pipeline (Megatron-LM's order).
struct Layout {
  int pipeline_size = 1;
  int data_size = 1;
  int context_size = 1;
  int tensor_size = 1;
  int virtual_stages = 1;  ///< parts of the model that each pipeline stage has

  int world_size() const { return pipeline_size * data_size * context_size * tensor_size; }
  /// The number of ranks that have the same part of the model, and the place of one among them.
  int group_size() const { return data_size * context_size; }
  int group_rank(const Coordinates& at) const { return at.data * context_size + at.context; }
  int rank_of(const Coordinates& at) const;
  Coordinates coordinates_of(int rank) const;
  /// "stage 1, tensor rank 0": a rank's place on the axes that have more than one, for the user;
  /// "" if each rank has the whole model.
  std::string position_text(int rank) const;
};

/// The layout of `world_size` ranks. A data_parallel_size of 0 takes what the other axes leave.
/// Error(kConfig), with the factorisation, if the product of the sizes is not the world's size.
Layout make_layout(const ParallelismConfig& config, int world_size);

}  // namespace hgt
