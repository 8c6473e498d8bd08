#pragma once

#include <string>

namespace hgt {

/// The path of hgtrain-worker, which lies beside this program; Error(kConfig) where it does not.
std::string worker_program();

}  // namespace hgt
