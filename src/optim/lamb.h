#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/optim/optimizer.h"

namespace hgt {

class ThreadPool;

/// The number of each tensor's first piece among tensor_pieces(), then the number of all pieces.
std::vector<std::int64_t> first_pieces(std::span<const FlatPiece> pieces);

/// The update of Lamb on the CPU, tensor by tensor, as hgtrain/optim/optimizer.h defines it. The
/// norm parts are those of Optimizer::norm_parts().
class Lamb {
 public:
  Lamb(const OptimizerConfig& config, const ParameterTable& table,
       const Optimizer::Buffers& buffers);

  void prepare(const Update& update, const Pieces& pieces, std::span<double> norm_parts,
               ThreadPool& pool);
  /// `update.lr` must include the bias correction.
  /// `pieces` are the rank's in some whole blocks.
  void step(const Update& update, std::span<const FlatPiece> pieces,
            std::span<const double> norm_parts, ThreadPool& pool);

 private:
  void find_ratio(std::size_t tensor, std::span<const double> norm_parts);

  float min_coeff_, max_coeff_;
  bool eps_inside_sqrt_;
  Optimizer::Buffers buffers_;
  std::vector<std::int64_t> first_pieces_;
  std::vector<float> ratios_;  ///< by tensor
};

}  // namespace hgt
