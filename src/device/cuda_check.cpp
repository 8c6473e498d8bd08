#include "hgtrain/device/cuda_check.h"

#include <string>

#include <fmt/format.h>

namespace hgt {
namespace {

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) noexcept {
  to[text.copy(to, N - 1)] = '\0';
}

}  // namespace

void fail_cuda(cudaError_t status, const char* call, const char* file, int line) {
  (void)cudaGetLastError();
  throw Error(ErrorKind::kDevice,
              fmt::format("CUDA: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status)))
      .in(fmt::format("{} at {}:{}", call, file, line));
}

CudaResult record_failure(const Error& error) noexcept {
  thread_local CudaFailure failure;
  failure.kind = static_cast<int>(error.kind());
  copy_text(failure.message, error.message());
  copy_text(failure.hint, error.hint());
  std::size_t used = 0;  // the lines in order, cut off if the record is full
  for (const std::string& line : error.context()) {
    used += line.copy(failure.context + used, sizeof failure.context - 1 - used);
    if (used < sizeof failure.context - 1) failure.context[used++] = '\n';
  }
  failure.context[used] = '\0';
  return &failure;
}

}  // namespace hgt
