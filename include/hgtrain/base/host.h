#pragma once

#include <string>

namespace hgt {

/// This machine's name, "localhost" where the system gives none.
std::string host_name();

}  // namespace hgt
