#include <atomic>
#include <cudnn.h>
#include <dlfcn.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "attention_cudnn.h"

namespace {

std::atomic<void*> g_library{nullptr};

void* function_named(const char* name) {
  void* const function = dlsym(g_library.load(), name);
  if (function == nullptr)
    throw hgt::Error(hgt::ErrorKind::kDevice, fmt::format("libcudnn.so.9 has no {}", name));
  return function;
}

}  // namespace

// The declarations are those of cudnn.h.
#define HGT_FORWARD(Result, name, parameters, arguments)                                   \
  Result name parameters {                                                                 \
    static const auto function = reinterpret_cast<decltype(&name)>(function_named(#name)); \
    return function arguments;                                                             \
  }
extern "C" {
HGT_FORWARD(std::size_t, cudnnGetVersion, (), ())
HGT_FORWARD(const char*, cudnnGetErrorString, (cudnnStatus_t status), (status))
HGT_FORWARD(void, cudnnGetLastErrorString, (char* text, std::size_t bytes), (text, bytes))
HGT_FORWARD(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))
HGT_FORWARD(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))
HGT_FORWARD(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t s), (handle, s))
HGT_FORWARD(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* s), (handle, s))
HGT_FORWARD(cudnnStatus_t, cudnnBackendCreateDescriptor,
            (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out), (type, out))
HGT_FORWARD(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor),
            (descriptor))
HGT_FORWARD(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor),
            (descriptor))
HGT_FORWARD(cudnnStatus_t, cudnnBackendSetAttribute,
            (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, std::int64_t count, const void* values),
            (descriptor, name, type, count, values))
HGT_FORWARD(cudnnStatus_t, cudnnBackendGetAttribute,
            (const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, std::int64_t asked, std::int64_t* count,
             void* values),
            (descriptor, name, type, asked, count, values))
HGT_FORWARD(cudnnStatus_t, cudnnBackendExecute,
            (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack),
            (handle, plan, pack))
}
#undef HGT_FORWARD

namespace hgt::cudnn {

void use_library(void* library) {
  void* none = nullptr;
  g_library.compare_exchange_strong(none, library);
  const std::size_t version = cudnnGetVersion();
  if (version / 10000 != 9)
    throw Error(ErrorKind::kDevice, fmt::format("cuDNN 9 is needed, this is {}", version));
}

}  // namespace hgt::cudnn
