#include "hgtrain/optim/ema.h"

#include "hgtrain/base/element.h"
#include "hgtrain/ops/run_cuda.h"

#include "cpu_loops.h"

namespace hgt {

void update_ema(double decay, const FlatTensor& values, const FlatTensor& average,
                const Pieces& pieces, const Update* update, Stream stream) {
  if (!average) return;
  const float decay_factor = static_cast<float>(decay),
              one_minus_decay = static_cast<float>(1 - decay);
  if (!stream.device().is_cpu())
    return run_cuda(stream, &CudaOpsTable::update_average,
                    {average.raw(), values.raw(), pieces.own().data(), std::ssize(pieces.own()),
                     decay_factor, one_minus_decay, update});
  if (update->skip != 0) return;
  visit_element(values.values.dtype(), [&]<class T>(T) {
    for_pieces(stream.pool(), pieces.own(), [&](const FlatPiece& piece) {
      float* const mean = average.at(piece).data<float>();
      const T* const value = values.at(piece).data<T>();
      for (std::int64_t i = 0; i < piece.end - piece.begin; ++i)
        mean[i] = decay_factor * mean[i] + one_minus_decay * static_cast<float>(value[i]);
    });
  });
}

}  // namespace hgt
