#include "hgtrain/ops/use_cudnn.h"

#include <fmt/format.h>

#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

namespace {

/// cuDNN compiles some kernels when they are first used. It opens the library for that by its name
/// alone, which finds only what lies in the system's folders, or is open already.
void open_compiler(const CudaModule& module) {
  try {
    module.library(fmt::format("libnvrtc.so.{}", module.probe().runtime_version / 1000));
  } catch (const Error&) {  // cuDNN reports it, if it needs the compiler
  }
}

}  // namespace

std::string use_cudnn(const CudaQueue& queue, const CudnnOptions& options) {
  const CudaModule& module = queue.module();
  std::size_t version = 0;
  open_compiler(module);
  try {
    check(
        module.ops().use_cudnn(module.library("libcudnn.so.9"), &options, queue.state(), &version));
  } catch (const Error& error) {
    return "attention backend: own kernels (no cuDNN: " + error.message() + ")";
  }
  return fmt::format("attention backend: cuDNN {}.{}.{}", version / 10000, version / 100 % 100,
                     version % 100);
}

}  // namespace hgt
