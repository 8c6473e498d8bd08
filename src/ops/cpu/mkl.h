#pragma once

#include <string>

#include "products.h"

namespace hgt::cpu {

/// Intel's MKL, if the loader finds its library libmkl_rt: LD_LIBRARY_PATH, which the setvars.sh of
/// Intel's packages sets, or the system's folders. It is opened once, before the first product. Its
/// products run on the calling thread alone, and repeat their bits wherever the operands lie.
bool has_mkl();
/// What MKL says of itself, or "" without it.
std::string mkl_version();
/// Needs MKL, and sizes and distances between rows below 2^31.
void mkl_product(const Product<float>& p);

}  // namespace hgt::cpu
