#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/optim/flat_tensor.h"
#include "hgtrain/optim/pieces.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// out[i] = the sum of the squares of piece number i, in fp64, for the rank's own pieces; other
/// elements of `out` keep their values. A piece's sum has the same bits on any number of ranks and
/// threads. It is finite if and only if every value is.
///
///   x    fp32
///   out  [pieces.total()]  fp64
void squares_of_pieces(const FlatTensor& x, const Pieces& pieces, const Tensor& out, Stream stream);

}  // namespace hgt
