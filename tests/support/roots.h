#pragma once

#include <string>

/// The folder of the sources that the tests were built from, and the folder they were built in.
std::string source_root();
std::string build_root();
