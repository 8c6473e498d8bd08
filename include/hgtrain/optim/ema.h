#pragma once

#include <span>

namespace hgt {

class ThreadPool;

/// average[i] = decay average[i] + (1 - decay) values[i]: one step of an exponential moving average
/// of weights (Polyak and Juditsky 1992; Tarvainen and Valpola 2017). Element by element, so no
/// number of threads changes a bit. An empty `average` is none: nothing is done.
void update_ema(double decay, std::span<const float> values, std::span<float> average,
                ThreadPool& pool);

}  // namespace hgt
