// A module that opens but is of another build, or of this one: FAKE_VERSION says.

#include "hgtrain/device/cuda_table.h"

extern "C" const hgt::CudaTables* hgtrain_cuda_tables() {
  static const hgt::CudaTables tables = {FAKE_VERSION, "fake", nullptr, nullptr, nullptr};
  return &tables;
}
