#pragma once

// For sources of the CUDA module only.

#include <cudnn.h>

namespace hgt::cudnn {

/// The functions of cudnn.h that cudnn-frontend and this module call are those of `library` from
/// now on, dlopen's handle of libcudnn: the module is linked with none, so that it opens without.
/// The first call's library stays. Throws Error(kDevice) where it is not cuDNN 9.
void use_library(void* library);

}  // namespace hgt::cudnn
