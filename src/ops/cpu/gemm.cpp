#include "hgtrain/ops/gemm.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "hgtrain/base/kernel_sizes.h"

#include "kernels.h"
#include "mkl.h"
#include "product_chooser.h"
#include "products.h"

namespace hgt::cpu {
namespace {

constexpr std::int64_t kChunk = 16;  // cells start at multiples of a vector

/// How c is cut into rows x columns cells.
struct Grid {
  std::int64_t rows, columns;   ///< cells in each direction
  std::int64_t cell_m, cell_n;  ///< size of a cell
};

/// One cell per thread, in the grid whose largest cell costs least: its area is the arithmetic, its
/// edges are what a thread must pack of a and b.
Grid choose_grid(std::int64_t m, std::int64_t n, int threads) {
  Grid best{1, 1, m, n};
  double best_cost = -1;
  for (std::int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const std::int64_t columns = threads / rows;
    const std::int64_t cell_m = round_up((m + rows - 1) / rows, kChunk);
    const std::int64_t cell_n = round_up((n + columns - 1) / columns, kChunk);
    const double cost = static_cast<double>(cell_m) * static_cast<double>(cell_n) +
                        8.0 * static_cast<double>(cell_m + cell_n);
    if (best_cost < 0 || cost < best_cost) {
      best_cost = cost;
      best = {rows, columns, cell_m, cell_n};
    }
  }
  return best;
}

/// Cells whose size follows from c's alone, because the library splits the sums of a product by the
/// size of the whole.
Grid fixed_grid(std::int64_t m, std::int64_t n) {
  constexpr std::int64_t kCell = 256;
  return {(m + kCell - 1) / kCell, (n + kCell - 1) / kCell, kCell, kCell};
}

Grid grid_of(std::int64_t m, std::int64_t n, const ThreadPool& pool) {
  return pool.is_deterministic() ? fixed_grid(m, n) : choose_grid(m, n, pool.threads());
}

/// The grid of a product whose c is narrow. For a cell with gaps between its rows, oneDNN uses
/// another kernel, which is slower and also holds the cell's sums in fp32: so cells are whole rows,
/// unless there are too few.
Grid narrow_grid(std::int64_t m, std::int64_t n, const ThreadPool& pool) {
  constexpr std::int64_t kMinRows = 64, kFixedRows = 128;
  if (pool.is_deterministic()) return {(m + kFixedRows - 1) / kFixedRows, 1, kFixedRows, n};
  const std::int64_t cell_m = round_up((m + pool.threads() - 1) / pool.threads(), kChunk);
  if (cell_m < kMinRows) return grid_of(m, n, pool);
  return {pool.threads(), 1, cell_m, n};
}

bool is_stored_transposed(const Tensor& x) {
  return x.stride(1) != 1 && x.size(1) != 1;
}

/// A matrix as the library wants it: stored row-major, or stored as its transpose.
template <class T>
struct Operand {
  explicit Operand(const Tensor& x)
      : transposed(is_stored_transposed(x)),
        ld(transposed ? x.stride(1) : x.stride(0)),
        data(x.data<T>()) {
    ld = std::max(ld, transposed ? x.size(0) : x.size(1));  // a single row may have any stride
  }
  T* at(std::int64_t row, std::int64_t column) const {
    return data + (transposed ? column * ld + row : row * ld + column);
  }
  bool transposed;
  std::int64_t ld;
  T* data;
};

/// A rectangle of c.
struct Cell {
  std::int64_t row, column, m, n;
};

/// Runs fn(cell, thread) for the cells of c, distributed over the threads.
template <class Fn>
void for_each_cell(const Grid& grid, std::int64_t m, std::int64_t n, ThreadPool& pool,
                   const Fn& fn) {
  pool.parallel_for(
      grid.rows * grid.columns, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i / grid.columns * grid.cell_m;
          const std::int64_t column = i % grid.columns * grid.cell_n;
          if (row < m && column < n)
            fn(Cell{row, column, std::min(grid.cell_m, m - row), std::min(grid.cell_n, n - column)},
               thread);
        }
      });
}

/// A cell of c = a b, or of c += a b.
template <class T>
Product<T> product_of(const Tensor& a, const Tensor& b, bool add, const Tensor& c,
                      const Cell& cell) {
  const Operand<T> oa(a), ob(b);
  const std::int64_t ldc = std::max(c.stride(0), c.size(1));
  const bool wide = c.dtype() == DType::kF32;
  return {oa.transposed,
          ob.transposed,
          cell.m,
          cell.n,
          a.size(1),
          oa.at(cell.row, 0),
          oa.ld,
          ob.at(0, cell.column),
          ob.ld,
          add,
          static_cast<std::byte*>(c.raw()) +
              (cell.row * ldc + cell.column) * static_cast<std::int64_t>(size_of(c.dtype())),
          ldc,
          wide};
}

/// The bits of the result do not depend on the cells.
template <class T>
void multiply_packed(const Tensor& a, const Tensor& b, bool add, const Tensor& c,
                     ThreadPool& pool) {
  const std::int64_t m = c.size(0), n = c.size(1);
  const std::int64_t floats = c.dtype() == DType::kF32 ? kPackedWideFloats : kPackedFloats;
  for_each_cell(choose_grid(m, n, pool.threads()), m, n, pool, [&](const Cell& cell, int thread) {
    packed_product(product_of<T>(a, b, add, c, cell), pool.scratch(thread, floats));
  });
}

/// The kernel for a product of this size if none is timed. If c is fp32, ours is faster with AMX;
/// without it, it takes 0.75 to 1.03 of oneDNN's time if the operands are fp32, too. Products with
/// a short side are left to oneDNN, because packing takes the same time for fewer terms.
ProductKernel usual_kernel(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, bool wide) {
  constexpr std::int64_t kMinSide = 64;
  const bool is_large = std::min({m, n, k}) >= kMinSide && is_timed(m, n, k);
  const bool is_faster = wide && is_large && (dtype == DType::kF32 || may_use_amx());
  return is_faster || !cpu_multiplies(dtype) ? ProductKernel::kOwn : ProductKernel::kOneDnn;
}

/// The kernel that computes c = a b or c += a b. A first call may time several.
template <class T>
ProductKernel kernel_for(const Tensor& a, const Tensor& b, bool add, const Tensor& c,
                         const ThreadPool& pool) {
  const std::int64_t m = c.size(0), n = c.size(1);
  const ProductKernel usual = usual_kernel(a.dtype(), m, n, a.size(1), c.dtype() == DType::kF32);
  ProductChooser* const chooser = product_chooser();
  if (chooser == nullptr || pool.is_deterministic()) return usual;
  const Grid grid = choose_grid(m, n, pool.threads());
  const Cell cell{0, 0, std::min(grid.cell_m, m), std::min(grid.cell_n, n)};
  return chooser->choose(product_of<T>(a, b, add, c, cell), usual);
}

void multiply_f32(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                  ThreadPool& pool) {
  const bool add = beta == 1;
  const ProductKernel kernel = alpha == 1 && (beta == 0 || add)
                                   ? kernel_for<float>(a, b, add, c, pool)
                                   : ProductKernel::kOneDnn;
  if (kernel == ProductKernel::kOwn) return multiply_packed<float>(a, b, add, c, pool);
  const std::int64_t m = c.size(0), n = c.size(1);
  if (kernel == ProductKernel::kMkl)
    return for_each_cell(grid_of(m, n, pool), m, n, pool, [&](const Cell& cell, int) {
      mkl_product(product_of<float>(a, b, add, c, cell));
    });
  const Operand<float> oa(a), ob(b), oc(c);
  for_each_cell(grid_of(m, n, pool), m, n, pool, [&](const Cell& cell, int) {
    sgemm({oa.transposed, ob.transposed, cell.m, cell.n, a.size(1), alpha, oa.at(cell.row, 0),
           oa.ld, ob.at(0, cell.column), ob.ld, beta, oc.at(cell.row, cell.column), oc.ld});
  });
}

void multiply_bf16(const Tensor& a, const Tensor& b, bool add, const Tensor& c, ThreadPool& pool) {
  if (kernel_for<BFloat16>(a, b, add, c, pool) == ProductKernel::kOwn)
    return multiply_packed<BFloat16>(a, b, add, c, pool);
  const std::int64_t m = c.size(0), n = c.size(1);
  const Grid grid = c.dtype() == DType::kF32 ? grid_of(m, n, pool) : narrow_grid(m, n, pool);
  for_each_cell(grid, m, n, pool, [&](const Cell& cell, int) {
    library_product(product_of<BFloat16>(a, b, add, c, cell));
  });
}

/// Turns c = a b with a c that is stored transposed into c^T = b^T a^T.
void make_row_major(Tensor& a, Tensor& b, Tensor& c) {
  if (!is_stored_transposed(c)) return;
  std::swap(a, b);
  a = a.transposed();
  b = b.transposed();
  c = c.transposed();
}

}  // namespace

void gemm(float alpha, Tensor a, Tensor b, float beta, Tensor c, ThreadPool& pool) {
  make_row_major(a, b, c);
  if (a.dtype() == DType::kBF16)
    multiply_bf16(a, b, beta != 0, c, pool);
  else if (a.dtype() == DType::kF16)
    multiply_packed<Half>(a, b, beta != 0, c, pool);
  else
    multiply_f32(alpha, a, b, beta, c, pool);
}

}  // namespace hgt::cpu

namespace hgt {

std::string_view cpu_product_kernel(const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                                    ThreadPool& pool) {
  std::array<Tensor, 3> x{a, b, c};
  cpu::make_row_major(x[0], x[1], x[2]);
  const bool add = beta == 1;
  if (a.dtype() == DType::kF32) return name_of(cpu::kernel_for<float>(x[0], x[1], add, x[2], pool));
  if (a.dtype() == DType::kBF16)
    return name_of(cpu::kernel_for<BFloat16>(x[0], x[1], add, x[2], pool));
  return name_of(cpu::ProductKernel::kOwn);
}

}  // namespace hgt
