#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/base/element.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/flat_piece.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Calls fn(const FlatPiece&) for every piece on the pool's threads. The pieces lie in host memory.
template <class Fn>
void for_pieces(ThreadPool& pool, std::span<const FlatPiece> pieces, const Fn& fn) {
  pool.parallel_for(std::ssize(pieces), [&](std::int64_t begin, std::int64_t end, int) {
    for (const FlatPiece& piece :
         pieces.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))
      fn(piece);
  });
}

/// out[i] = values[i], rounded to out's type. Does nothing if there is no `out`.
inline void round_values(const Tensor& values, const Tensor& out) {
  if (!out) return;
  visit_element(values.dtype(), [&]<class From>(From) {
    const From* const from = values.data<From>();
    visit_element(out.dtype(), [&]<class To>(To) {
      To* const to = out.data<To>();
      const std::int64_t count = out.numel();
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
}

}  // namespace hgt
