#pragma once

namespace hgt {

struct LoadResult;
struct PrecisionConfig;

/// Decides "auto" of bf16 and fp16 by the compute capability of the oldest of a job's GPUs (90 is
/// 9.0). If that is not known (0), the GPU is assumed to have bf16. Error(kConfig) if the config
/// asks for bf16 and the GPU lacks it.
void resolve_precision(const LoadResult& loaded, int compute_capability,
                       PrecisionConfig& precision);

}  // namespace hgt
