#pragma once

#include <cstdint>
#include <string>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/wire/control.h"

namespace hgt {

struct Config;

/// Mean loss of the model in the folder config.model.init over the first `samples` samples of the
/// config's validation data; every rank of `comm` calls it. The same, bit for bit, as training's
/// evaluation of the same weights, data and micro-batch. The weights are those of
/// WEIGHTS.safetensors: "model", or "ema". The device is that of `queue`, or the CPU if there is
/// none. Error(kData) if the weights are damaged, Error(kCheck) if the loss is not finite.
double evaluate_model(const Config& config, const std::string& weights, std::int64_t samples,
                      Communicator& comm, Progress& progress, const CudaQueue* queue = nullptr);

}  // namespace hgt
