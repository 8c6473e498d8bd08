#include "gpu_precision.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/load.h"
#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

void resolve_precision(const LoadResult& loaded, int compute_capability,
                       PrecisionConfig& precision) {
  const bool bf16 = has_bf16(compute_capability);
  if (precision.bf16 && !bf16)
    throw Error(ErrorKind::kConfig,
                fmt::format("bf16 needs GPUs of compute capability 8.0, and this is one of {}.{}",
                            compute_capability / 10, compute_capability % 10),
                "use fp16: --bf16.enabled false --fp16.enabled true; or set both to \"auto\"");
  if (precision.compute_dtype() != DType::kF32) return;
  if (!loaded.is_auto("bf16.enabled")) return;
  if (bf16)
    precision.bf16 = true;
  else
    precision.fp16 = loaded.is_auto("fp16.enabled");
}

}  // namespace hgt
