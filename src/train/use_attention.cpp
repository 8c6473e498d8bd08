#include "hgtrain/train/use_attention.h"

#include <fmt/format.h>

#include "hgtrain/arch/gpu_scratch.h"
#include "hgtrain/config/config.h"
#include "hgtrain/ops/use_cudnn.h"

namespace hgt {
namespace {

/// Why cuDNN is not used; "" if it is tried.
std::string why_not_cudnn(const Config& config) {
  if (config.parallelism.context_parallel_size > 1)
    return "context ranks have parts of the sequences";
  if (!config.hardware.cudnn) return "hardware.cudnn is false";
  if (config.precision.compute_dtype() == DType::kF32) return "cuDNN's is for 16 bits";
  if (config.model.attn_pdrop > 0) return "attention has dropout";
  if (config.data.separate_documents) return "samples have documents of their own";
  return "";
}

}  // namespace

std::string use_attention(const Config& config, const CudaQueue& queue) {
  if (const std::string reason = why_not_cudnn(config); !reason.empty())
    return fmt::format("attention backend: own kernels ({})", reason);
  return use_cudnn(queue,
                   {gpu_scratch(config).attention_part_bytes, config.deterministic_attention()});
}

}  // namespace hgt
