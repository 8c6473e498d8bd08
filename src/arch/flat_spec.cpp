#include "hgtrain/arch/flat_spec.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

namespace hgt {

FlatSpec flat_spec(const Config& config, int zero_stage, bool on_gpu) {
  const DType compute = config.precision.compute_dtype(),
              parameter = config.precision.parameter_dtype();
  const ZeroConfig& zero = config.zero;
  const bool offloads_optimizer = on_gpu && zero.offload_optimizer == "cpu",
             offloads_weights = on_gpu && zero.stage == 3 && zero.offload_param == "cpu",
             rounds = compute != parameter, sends = offloads_optimizer && !offloads_weights;
  const bool shards_state = zero_stage >= 1, shards_weights = zero_stage >= 3;
  // In host memory, a rank keeps only its shard of the gradients, too.
  const bool shards_gradients = zero_stage >= (offloads_optimizer ? 1 : 2);
  FlatSpec out;
  out.parameters = {"parameters", parameter, rounds || sends ? shards_state : shards_weights,
                    offloads_optimizer || (offloads_weights && !rounds)};
  out.gradients = {"gradients", DType::kF32, shards_gradients, offloads_optimizer};
  for (const std::string& name : optimizer_state(config.optimizer))
    out.state.push_back({name, config.precision.state_dtype(), shards_state, offloads_optimizer});
  if (config.training.ema_decay > 0)
    out.ema = {"ema", DType::kF32, shards_state, offloads_optimizer};
  if (rounds)
    out.rounded = {"weights", compute, sends ? shards_state : shards_weights,
                   offloads_optimizer || offloads_weights};
  if (sends) out.sent = {"weights", compute, shards_weights, false};
  return out;
}

std::vector<std::string> optimizer_state(const OptimizerConfig& config) {
  const std::string& type = config.type;
  if (type == "AdamW" || type == "Adam" || type == "Lamb") return {"exp_avg", "exp_avg_sq"};
  if (type == "Lion") return {"exp_avg"};
  if (type == "Adagrad") return {"sum"};
  if (type == "SGD" && config.momentum == 0) return {};
  if (type == "SGD") return {"momentum_buffer"};
  throw Error(ErrorKind::kConfig, fmt::format("optimizer type '{}' is not built", type),
              "use AdamW, Adam, Lamb, Lion, Adagrad or SGD");
}

}  // namespace hgt
