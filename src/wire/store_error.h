#pragma once

#include <chrono>
#include <string>

namespace hgt {

// How a wait on a store fails; the same words whichever store it is.
[[noreturn]] void throw_store_timeout(const std::string& key, std::chrono::milliseconds timeout);
[[noreturn]] void throw_store_ended(const std::string& key, const std::string& reason);

}  // namespace hgt
