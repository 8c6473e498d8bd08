#pragma once

// For sources of the CUDA module only.

#include <cudnn.h>

namespace hgt::cudnn {

/// From now on, the functions of cudnn.h that cudnn-frontend and this module call are those of
/// `library`, dlopen's handle of libcudnn: the module does not link cuDNN, so it opens without it.
/// The library of the first call stays. Throws Error(kDevice) if it is not cuDNN 9.
void use_library(void* library);

}  // namespace hgt::cudnn
