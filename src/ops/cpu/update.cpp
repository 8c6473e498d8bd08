#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"

namespace hgt::cpu {

void prepare_update(const Tensor& losses, const Tensor& squares, Update& u) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::int64_t i = 0; i < losses.numel(); ++i) sum += losses.data<double>()[i];
  u.loss = sum / u.tokens;
  u.norm = std::sqrt(*squares.data<double>()) / u.loss_scale;
  const double factor = u.clip > 0 ? std::min(1.0, u.clip / (u.norm + 1e-6)) : 1.0;
  u.gradient_factor = static_cast<float>(factor / u.loss_scale);
  const bool finite = u.norm < kInfinity && std::abs(u.loss) < kInfinity;
  if (!finite) u.halted = u.halt_on_nonfinite;
  u.skip = finite && u.halted == 0 ? 0 : 1;
}

}  // namespace hgt::cpu
