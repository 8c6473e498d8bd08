#pragma once

// For sources of the CUDA module only: attention over cuDNN. It is in attention_cudnn.cpp, the only
// file with cuDNN's headers, or in attention_no_cudnn.cpp if a build has none.

#include <cstddef>
#include <cstdint>
#include <string>

#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cudnn {

/// From now on, the functions of cudnn.h that cudnn-frontend and this module call are those of
/// `library`, dlopen's handle of libcudnn: the module does not link cuDNN, so it opens without it.
/// The library of the first call stays. Throws Error(kDevice) if it is not cuDNN 9.
void use_library(void* library);

/// From now on the stream's attention uses cuDNN if it can: CudaOpsTable::use_cudnn. Returns
/// cuDNN's version; throws Error(kDevice) if it cannot be used.
std::size_t use(void* library, const CudnnOptions& options, CudaStreamState& stream);

/// Queues the op, or returns false with nothing queued if the stream does not use cuDNN, or cuDNN
/// does not support the op.
bool attention_fwd(const AttentionArgs& args, CudaStreamState& stream);
bool attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream);

/// How much of attention over cuDNN one launch computes: some samples with all their heads, or one
/// sample with some key heads and the query heads that read them.
struct AttentionPart {
  std::int64_t samples, key_heads;

  template <class Shape>
  std::int64_t heads(const Shape& s) const {
    return key_heads * (s.heads / s.key_heads);
  }
};

/// The largest divisor of `count` that is at most `limit`; at least 1.
constexpr std::int64_t divisor_up_to(std::int64_t count, std::int64_t limit) {
  std::int64_t part = limit < count ? limit : count;
  while (part > 1 && count % part != 0) --part;
  return part < 1 ? 1 : part;
}

/// The forward is one part, and so is a backward that is not deterministic. The deterministic one
/// writes a matrix of 16 bits, queries x keys, for each head: parts bound that, for any batch.
template <class Shape>
constexpr AttentionPart attention_part(const Shape& s, const CudnnOptions& options) {
  if (!s.backward || !options.deterministic) return {s.batch, s.key_heads};
  const std::int64_t key_head_bytes =
      cuda::attention_head_bytes(s.length) * (s.heads / s.key_heads);
  const std::int64_t samples = options.part_bytes / (key_head_bytes * s.key_heads);
  if (samples >= 1) return {divisor_up_to(s.batch, samples), s.key_heads};
  return {1, divisor_up_to(s.key_heads, options.part_bytes / key_head_bytes)};
}

/// A device that need not be present: 90 is sm_90; its properties as cuDNN writes them.
struct AbsentDevice {
  int sm;
  std::string json;
};

/// Throws cuDNN's message if it would not support the op on the device. Only in builds with cuDNN,
/// after use_library: for tests without a GPU.
void require_support(const AttentionArgs& args, const AbsentDevice& device);
void require_support(const AttentionBwdArgs& args, const AbsentDevice& device,
                     const CudnnOptions& options = {});
/// Likewise builds the plan of the op for the device, the last part of which is to load its kernels
/// with the driver.
void build_plan(const AttentionArgs& args, const AbsentDevice& device);
void build_plan(const AttentionBwdArgs& args, const AbsentDevice& device,
                const CudnnOptions& options = {});

}  // namespace hgt::cudnn
