#pragma once

#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/parallel/range.h"

#include "elementwise.h"

namespace hgt {

class ThreadPool;

/// The update of Lamb, tensor by tensor, as hgtrain/optim/optimizer.h defines it.
class Lamb {
 public:
  struct Flat {
    float* p;
    const float* g;
    float *m, *v;
  };
  Lamb(const OptimizerConfig& config, const ParameterTable& table);

  /// `update.lr` must include the bias correction.
  void step(const Update& update, const Flat& flat, ThreadPool& pool);

 private:
  /// A contiguous part of a tensor, and the sums of its squares.
  struct Piece {
    std::size_t tensor;
    Range range;
    bool decay;
    double weight_squares, change_squares;
  };
  void find_ratios();
  template <class Fn>
  void for_pieces(ThreadPool& pool, const Update& update, const Fn& fn);

  float min_coeff_, max_coeff_;
  bool eps_inside_sqrt_;
  std::vector<Piece> pieces_;  ///< tensor by tensor
  std::vector<float> ratios_;  ///< by tensor
};

}  // namespace hgt
