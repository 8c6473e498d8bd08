#pragma once

// For sources of the CUDA module only: attention over cuDNN. It is in attention_cudnn.cpp, the only
// file with cuDNN's headers, or in attention_no_cudnn.cpp if a build has none.

#include <cstddef>
#include <string>

#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cudnn {

/// From now on the stream's attention uses cuDNN if it can: CudaOpsTable::use_cudnn. Returns
/// cuDNN's version; throws Error(kDevice) if it cannot be used.
std::size_t use(void* library, CudaStreamState& stream);

/// Queues the op, or returns false with nothing queued if the stream does not use cuDNN, or cuDNN
/// does not support the op.
bool attention_fwd(const AttentionArgs& args, CudaStreamState& stream);
bool attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream);

/// A device that need not be present: 90 is sm_90; its properties as cuDNN writes them.
struct AbsentDevice {
  int sm;
  std::string json;
};

/// Throws cuDNN's message if it would not support the op on the device. Only in builds with cuDNN,
/// after use_library: for tests without a GPU.
void require_support(const AttentionArgs& args, const AbsentDevice& device);
void require_support(const AttentionBwdArgs& args, const AbsentDevice& device);

}  // namespace hgt::cudnn
