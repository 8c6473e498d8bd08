#pragma once

#include <span>
#include <string_view>

namespace hgt {

/// Extensions of x86-64 that the CPU kernels were compiled for, as /proc/cpuinfo names them
/// ("avx2"); empty on other processors. A CPU without one of them would kill the process (SIGILL).
std::span<const std::string_view> cpu_kernel_instructions();

}  // namespace hgt
