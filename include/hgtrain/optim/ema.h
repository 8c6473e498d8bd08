#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/optim/pieces.h"

namespace hgt {

/// average[i] = decay average[i] + (1 - decay) values[i] in the rank's pieces: one step of an
/// exponential moving average of weights (Polyak and Juditsky 1992; Tarvainen and Valpola 2017).
/// The number of threads or ranks changes no bit. The average is fp32, the values are fp32 or bf16.
/// Does nothing if `average` is empty, or if `update`, in memory of the stream's device, says
/// `skip`.
void update_ema(double decay, const FlatTensor& values, const FlatTensor& average,
                const Pieces& pieces, const Update* update, Stream stream);

}  // namespace hgt
