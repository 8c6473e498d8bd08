#pragma once

// Our own kernels' products against a plain reference.

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/device/buffer.h"

#include "cpu/products.h"
#include "reference.h"

namespace own_product {

using namespace hgt;
using namespace hgt::cpu;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
};

template <class T>
std::vector<T> stored(const Floats& x, std::int64_t rows, std::int64_t columns, bool transposed) {
  std::vector<T> out(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(transposed ? c * rows + r : r * columns + c)] =
          x[static_cast<std::size_t>(r * columns + c)];
  return out;
}

/// Random numbers that T can hold.
template <class T>
Floats numbers(std::int64_t count, std::uint64_t seed) {
  Floats out = random_floats(count, seed);
  for (float& x : out) x = static_cast<float>(T(x));
  return out;
}

/// Checks that the kernel writes to no more scratch memory than it is promised.
template <class T>
void run(void (*kernel)(const Product<T>&, float*), const Product<T>& p) {
  constexpr float kUnused = -7;
  constexpr std::int64_t kBeyond = 4096;
  const std::int64_t floats = p.wide ? kPackedWideFloats : kPackedFloats;
  const Buffer scratch("scratch", (floats + kBeyond) * std::int64_t{sizeof(float)});
  float* const beyond = scratch.as<float>().data() + floats;
  std::fill_n(beyond, kBeyond, kUnused);
  kernel(p, scratch.as<float>().data());
  CHECK(std::all_of(beyond, beyond + kBeyond, [](float x) { return x == kUnused; }));
}

/// c = a b or c += a b, as one product and by cells: the bits must be the same.
template <class T, class C>
void check(void (*kernel)(const Product<T>&, float*), const Case& s, bool add) {
  const Floats a = numbers<T>(s.m * s.k, 1), b = numbers<T>(s.k * s.n, 2);
  const Floats before = numbers<C>(s.m * s.n, 3);
  const std::vector<T> left = stored<T>(a, s.m, s.k, s.transpose_a);
  const std::vector<T> right = stored<T>(b, s.k, s.n, s.transpose_b);
  std::vector<C> c(before.begin(), before.end()), by_cells = c;
  Product<T> p{s.transpose_a,
               s.transpose_b,
               s.m,
               s.n,
               s.k,
               left.data(),
               s.transpose_a ? s.m : s.k,
               right.data(),
               s.transpose_b ? s.k : s.n,
               add,
               c.data(),
               s.n,
               std::is_same_v<C, float>};
  run(kernel, p);

  Doubles expected(c.size());
  if (add) expected.assign(before.begin(), before.end());
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t k = 0; k < s.k; ++k) {
      const double left = static_cast<double>(a[static_cast<std::size_t>(i * s.k + k)]);
      for (std::int64_t j = 0; j < s.n; ++j)
        expected[static_cast<std::size_t>(i * s.n + j)] +=
            left * static_cast<double>(b[static_cast<std::size_t>(k * s.n + j)]);
    }
  const double rounding = std::is_same_v<C, float> ? 0 : std::is_same_v<C, Half> ? 0x1p-11 : 0x1p-8;
  CHECK(error_of(Floats(c.begin(), c.end()), expected) < rounding + 2e-6);

  const std::int64_t middle = s.m / 3, centre = s.n / 2;
  for (const auto& [row, column, rows, columns] :
       std::vector<std::array<std::int64_t, 4>>{{0, 0, middle, centre},
                                                {0, centre, middle, s.n - centre},
                                                {middle, 0, s.m - middle, centre},
                                                {middle, centre, s.m - middle, s.n - centre}}) {
    if (rows == 0 || columns == 0) continue;
    Product<T> cell = p;
    cell.m = rows;
    cell.n = columns;
    cell.a += s.transpose_a ? row : row * p.lda;
    cell.b += s.transpose_b ? column * p.ldb : column;
    cell.c = by_cells.data() + row * s.n + column;
    run(kernel, cell);
  }
  CHECK(std::equal(c.begin(), c.end(), by_cells.begin(),
                   [](C x, C y) { return static_cast<float>(x) == static_cast<float>(y); }));
}

/// Calls fn(case) for every orientation of one element; odd sizes; whole vectors; several blocks of
/// rows, columns and depth; a last block of one row and one column; and for several bands of a
/// block of as many columns as a kernel may have.
template <class Fn>
void for_each_case(const Fn& fn) {
  const auto call = [&](const Case& s) {
    INFO(s.m << "x" << s.n << "x" << s.k << ", " << s.transpose_a << s.transpose_b);
    fn(s);
  };
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                            {7, 50, 3},
                                                                            {16, 96, 32},
                                                                            {33, 400, 50},
                                                                            {200, 17, 801},
                                                                            {1100, 3, 401},
                                                                            {3, 1200, 40},
                                                                            {97, 385, 385}})
        call({m, n, k, ta, tb});
  call({520, 1160, 385, false, false});
}

}  // namespace own_product
