#include "hgtrain/ops/use_cudnn.h"

#include <fmt/format.h>

#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

std::string use_cudnn(const CudaQueue& queue) {
  const CudaModule& module = queue.module();
  std::size_t version = 0;
  try {
    check(module.ops().use_cudnn(module.library("libcudnn.so.9"), queue.state(), &version));
  } catch (const Error& error) {
    return "attention backend: own kernels (no cuDNN: " + error.message() + ")";
  }
  return fmt::format("attention backend: cuDNN {}.{}.{}", version / 10000, version / 100 % 100,
                     version % 100);
}

}  // namespace hgt
