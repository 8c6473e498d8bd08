#pragma once

#include <span>

#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/flat_piece.h"

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

}  // namespace hgt
