#pragma once

#include <string>

namespace hgt {

/// This machine's name; "localhost" if the system gives none.
std::string host_name();

}  // namespace hgt
