#include <algorithm>

#include "cpu_kernels.h"
#include "sgemm.h"

namespace hgt::cpu {
namespace {

constexpr std::int64_t kUnit = 16;  // cells start at multiples of a vector

std::int64_t round_up(std::int64_t n) {
  return (n + kUnit - 1) / kUnit * kUnit;
}

/// How c is cut into rows x columns cells, one for each thread.
struct Grid {
  std::int64_t rows, columns;   ///< cells in each direction
  std::int64_t cell_m, cell_n;  ///< size of a cell
};

/// The grid whose largest cell costs least: its area is the arithmetic, its edges what a thread
/// has to pack of a and b.
Grid choose_grid(std::int64_t m, std::int64_t n, int threads) {
  Grid best{1, 1, m, n};
  double best_cost = -1;
  for (std::int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const std::int64_t columns = threads / rows;
    const std::int64_t cell_m = round_up((m + rows - 1) / rows);
    const std::int64_t cell_n = round_up((n + columns - 1) / columns);
    const double cost = static_cast<double>(cell_m) * static_cast<double>(cell_n) +
                        8.0 * static_cast<double>(cell_m + cell_n);
    if (best_cost < 0 || cost < best_cost) {
      best_cost = cost;
      best = {rows, columns, cell_m, cell_n};
    }
  }
  return best;
}

/// A matrix as the library wants it: stored row-major, or stored as its transpose.
struct Operand {
  explicit Operand(const Tensor& x)
      : transposed(x.stride(1) != 1 && x.size(1) != 1),
        ld(transposed ? x.stride(1) : x.stride(0)),
        data(x.data<float>()) {
    ld = std::max(ld, transposed ? x.size(0) : x.size(1));  // a single row may have any stride
  }
  float* at(std::int64_t row, std::int64_t column) const {
    return data + (transposed ? column * ld + row : row * ld + column);
  }
  bool transposed;
  std::int64_t ld;
  float* data;
};

}  // namespace

void gemm(float alpha, Tensor a, Tensor b, float beta, Tensor c, ThreadPool& pool) {
  if (Operand(c).transposed) {  // c^T = b^T a^T
    std::swap(a, b);
    a = a.transposed();
    b = b.transposed();
    c = c.transposed();
  }
  const Operand oa(a), ob(b), oc(c);
  const std::int64_t m = c.size(0), n = c.size(1), k = a.size(1);
  const Grid grid = choose_grid(m, n, pool.threads());
  pool.parallel_for(grid.rows * grid.columns, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t cell = begin; cell < end; ++cell) {
      const std::int64_t row = cell / grid.columns * grid.cell_m;
      const std::int64_t column = cell % grid.columns * grid.cell_n;
      if (row >= m || column >= n) continue;
      sgemm({oa.transposed, ob.transposed, std::min(grid.cell_m, m - row),
             std::min(grid.cell_n, n - column), k, alpha, oa.at(row, 0), oa.ld, ob.at(0, column),
             ob.ld, beta, oc.at(row, column), oc.ld});
    }
  });
}

}  // namespace hgt::cpu
