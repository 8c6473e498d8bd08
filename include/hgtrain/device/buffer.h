#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hgtrain/device/device.h"

namespace hgt {

/// An owned, named, zeroed allocation on one device, aligned to 64 bytes (a cache line, an AVX-512
/// vector). Pages of a large one that nobody touched take no memory yet.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  Buffer() = default;
  /// Throws Error(kDevice) naming the buffer and its size where there is no memory for it.
  Buffer(std::string name, std::int64_t bytes, Device device = Device::cpu());
  /// One in host memory that copies from and to `device` do not wait for: page-locked, unless it is
  /// the CPU.
  static Buffer reached_by(Device device, std::string name, std::int64_t bytes);

  /// Bytes that buffers hold on GPUs now.
  static std::int64_t held_on_gpus();

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  void* data() const { return data_; }

  /// All of it as elements of type T; where they lie on a device, only calls that say so take them.
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), static_cast<std::size_t>(bytes_) / sizeof(T)};
  }

 private:
  enum class Place { kHost, kPinned, kDevice };
  struct Free {
    Place place;
    Device device;
    void operator()(void* memory) const noexcept;
  };
  Buffer(std::string name, std::int64_t bytes, Place place, Device device);
  static void* allocate(const std::string& name, std::size_t bytes, Place place, Device device);
  std::string name_;
  std::int64_t bytes_ = 0;
  Device device_;
  std::unique_ptr<void, Free> memory_;
  void* data_ = nullptr;  ///< the first aligned byte of memory_
};

}  // namespace hgt
