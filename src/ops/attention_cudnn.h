#pragma once

// For sources of the CUDA module only: attention over cuDNN. In attention_cudnn.cpp, the one file
// that includes cuDNN's headers, or, where a build has none of them, attention_no_cudnn.cpp.

#include <cstddef>
#include <string>

#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cudnn {

/// The stream's attention is offered to cuDNN from now on: CudaOpsTable::use_cudnn. Gives cuDNN's
/// version; throws Error(kDevice) where it cannot be used.
std::size_t use(void* library, CudaStreamState& stream);

/// Queues the op, or returns false with nothing queued: the stream does not use cuDNN, or cuDNN
/// does not take the op.
bool attention_fwd(const AttentionArgs& args, CudaStreamState& stream);
bool attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream);

/// A device that need not be here: 90 is sm_90; its properties as cuDNN writes them.
struct AbsentDevice {
  int sm;
  std::string json;
};

/// Throws cuDNN's words where it would not take the op on the device. Only in builds with cuDNN,
/// after use_library: what tests can know without a GPU.
void require_support(const AttentionArgs& args, const AbsentDevice& device);
void require_support(const AttentionBwdArgs& args, const AbsentDevice& device);

}  // namespace hgt::cudnn
