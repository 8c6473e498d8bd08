#pragma once

#include <string>

namespace hgt {

/// Where memory lies and work runs: the CPU, or a CUDA device by its index among the visible ones.
struct Device {
  enum class Kind { kCpu, kCuda } kind = Kind::kCpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index) { return {Kind::kCuda, index}; }
  constexpr bool is_cpu() const { return kind == Kind::kCpu; }
  constexpr bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0".
inline std::string name_of(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace hgt
