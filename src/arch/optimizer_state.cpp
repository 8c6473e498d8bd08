#include "hgtrain/arch/optimizer_state.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/optimizer_config.h"

namespace hgt {

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
