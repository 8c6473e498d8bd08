#include "hgtrain/device/buffer.h"

#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a buffer is aligned, zeroed and named") {
  for (const std::int64_t bytes : {0, 1, 64, 1000, 5 << 20}) {
    const Buffer buffer("gradients", bytes);
    CHECK(buffer.name() == "gradients");
    CHECK(buffer.bytes() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % Buffer::kAlignment == 0);
    const auto all = buffer.as<unsigned char>();
    CHECK(std::all_of(all.begin(), all.end(), [](unsigned char c) { return c == 0; }));
  }
}

TEST_CASE("an allocation that fails names its buffer") {
  const auto message = [](std::int64_t bytes, Device device) -> std::string {
    try {
      Buffer("activations", bytes, device);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kDevice);
      return fmt::format("{}; {}", e.message(), fmt::join(e.context(), ", "));
    }
    return "";
  };
  CHECK(message(std::int64_t{1} << 62, Device::cpu()) ==
        "out of memory: could not get 4398046511104.0 MiB for activations; ");
  CHECK(message(1, Device::cuda(1000)).find("allocating activations") != std::string::npos);
}
