#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// average[i] = decay average[i] + (1 - decay) values[i]: one step of an exponential
/// moving average of weights (Polyak and Juditsky 1992; Tarvainen and Valpola 2017). The
/// number of threads changes no bit. The average is fp32, the values are fp32 or bf16.
/// Does nothing if `average` is empty, or if `update`, in memory of the stream's device,
/// says `skip`.
void update_ema(double decay, const Tensor& values, const Tensor& average, const Update* update,
                Stream stream);

}  // namespace hgt
