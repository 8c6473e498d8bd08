// What doctor asks of libcuda, libcudart, libcublasLt, libcudnn and libnccl, all in one: cuInit
// gives FAKE_CUINIT, the driver serves FAKE_DRIVER_CUDA, and has FAKE_GPUS.
#include <cstddef>
#include <cstdlib>

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return number("FAKE_CUINIT", 0);
}
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER_CUDA", 13010);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_GPUS", 0);
  return 0;
}
int cudaRuntimeGetVersion(int* version) {
  *version = FAKE_CUDA_VERSION;
  return 0;
}
std::size_t cublasLtGetVersion() {
  return FAKE_CUDA_VERSION * 10 + 100;
}
std::size_t cudnnGetVersion() {
  return 91900;
}
int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}

}  // extern "C"
