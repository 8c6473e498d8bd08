#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels.h"

namespace hgt::cpu {

void prepare_update(const Tensor& losses, const Tensor& squares, Update& u) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto sum = [](const Tensor& values) {
    const double* const begin = values.data<double>();
    return std::accumulate(begin, begin + values.numel(), 0.0);
  };
  u.loss = sum(losses) / u.tokens;
  u.norm = std::sqrt(sum(squares)) / u.loss_scale;
  const double factor = u.clip > 0 ? std::min(1.0, u.clip / (u.norm + 1e-6)) : 1.0;
  u.gradient_factor = static_cast<float>(factor / u.loss_scale);
  const bool finite = u.norm < kInfinity && std::abs(u.loss) < kInfinity;
  if (!finite) u.halted = u.halt_on_nonfinite;
  u.skip = finite && u.halted == 0 ? 0 : 1;
}

}  // namespace hgt::cpu
