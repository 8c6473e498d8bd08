#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hgtrain/device/device.h"

namespace hgt {

/// An owned, named, zeroed allocation on one device, aligned to 64 bytes (a cache line, an AVX-512
/// vector). Pages of a large buffer take no memory until they are first touched.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  Buffer() = default;
  /// Throws Error(kDevice) with the buffer's name and size if there is not enough memory.
  Buffer(std::string name, std::int64_t bytes, Device device = Device::cpu());
  /// Host memory for copies from and to `device`. It is page-locked, so that such copies do not
  /// block, unless the device is the CPU.
  static Buffer pinned_for(Device device, std::string name, std::int64_t bytes);

  /// The bytes that all buffers hold on GPUs now.
  static std::int64_t held_on_gpus();

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  void* data() const { return data_; }

  /// The whole buffer as elements of type T. Device memory is only for calls that accept it.
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
