#include "hgtrain/base/error.h"

#include "attention_cudnn.h"

namespace hgt::cudnn {

std::size_t use(void*, const CudnnOptions&, CudaStreamState&) {
  throw Error(ErrorKind::kDevice, "this build of hgtrain_cuda.so has no attention over cuDNN",
              "build where PyPI's nvidia-cudnn-frontend is installed: scripts/setup");
}

bool attention_fwd(const AttentionArgs&, CudaStreamState&) {
  return false;
}
bool attention_bwd(const AttentionBwdArgs&, CudaStreamState&) {
  return false;
}

}  // namespace hgt::cudnn
