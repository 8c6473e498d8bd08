#pragma once

#include "hgtrain/device/thread_pool.h"
#include "hgtrain/optim/pieces.h"

namespace hgt {

/// Calls fn(const FlatPiece&) for every piece of the rank on the pool's threads. The pieces lie in
/// host memory.
template <class Fn>
void for_pieces(ThreadPool& pool, const Pieces& pieces, const Fn& fn) {
  const std::span<const FlatPiece> own = pieces.own();
  pool.parallel_for(std::ssize(own), [&](std::int64_t begin, std::int64_t end, int) {
    for (const FlatPiece& piece :
         own.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))
      fn(piece);
  });
}

}  // namespace hgt
