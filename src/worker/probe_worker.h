#pragma once

namespace hgt {

/// For `hgtrain doctor`: prints what the CUDA module says, one line of JSON. Returns the exit
/// status.
int probe_worker();

}  // namespace hgt
