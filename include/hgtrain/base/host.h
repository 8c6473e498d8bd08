#pragma once

#include <filesystem>
#include <string>

namespace hgt {

/// This machine's name; "localhost" if the system gives none.
std::string host_name();

/// A random text that is new each time this machine starts; "" if it is not known.
std::string boot_id();

/// The file of this process's program.
std::filesystem::path own_program();

/// Whether this CPU has Intel's AMX for bf16.
bool cpu_has_amx();

}  // namespace hgt
