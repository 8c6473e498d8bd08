#pragma once

// For sources of the CUDA module only: CUDA errors, and the boundary that no exception may cross.

#include <cuda_runtime_api.h>
#include <exception>

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_table.h"

namespace hgt {

/// Throws Error(kDevice) with CUDA's message, the call and its place. Clears the thread's "last
/// error" before, so that the next launch is not blamed for it.
[[noreturn]] void fail_cuda(cudaError_t status, const char* call, const char* file, int line);

inline void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess) [[unlikely]]
    fail_cuda(status, call, file, line);
}

/// This thread's failure record, filled from the error.
CudaResult record_failure(const Error& error) noexcept;

/// Runs the body of a table function: every table function is `return guarded([&] { ... });`.
/// Exceptions do not leave the module but become a CudaResult, because the worker may link another
/// C++ standard library.
template <class Body>
CudaResult guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return record_failure(error);
  } catch (const std::exception& error) {
    return record_failure(Error(ErrorKind::kInternal, error.what()));
  }
}

}  // namespace hgt

#define HGT_CUDA_CHECK(call) ::hgt::check_cuda((call), #call, __FILE__, __LINE__)
