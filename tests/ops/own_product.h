#pragma once

// Our own kernels' products against a plain reference.

#include <algorithm>
#include <array>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
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

/// Elements that end where a page begins that nobody may read or write.
template <class T>
class Guarded {
 public:
  explicit Guarded(const Floats& x) : size_(x.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t pages = (size_ * sizeof(T) + page - 1) / page * page;
    bytes_ = pages + page;
    void* const memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory_ = static_cast<std::byte*>(memory);
    REQUIRE(mprotect(memory_ + pages, page, PROT_NONE) == 0);
    data_ = reinterpret_cast<T*>(memory_ + pages) - size_;
    std::copy(x.begin(), x.end(), data_);
  }
  ~Guarded() { munmap(memory_, bytes_); }
  Guarded(const Guarded&) = delete;

  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  std::size_t size_, bytes_;
  std::byte* memory_;
  T* data_;
};

inline Floats stored(const Floats& x, std::int64_t rows, std::int64_t columns, bool transposed) {
  Floats out(x.size());
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
  const Guarded<T> left(stored(a, s.m, s.k, s.transpose_a));
  const Guarded<T> right(stored(b, s.k, s.n, s.transpose_b));
  const Guarded<C> c(before), by_cells(before);
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

  Doubles expected(before.size());
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

/// Calls fn(case) for every orientation of one element; odd sizes; whole vectors; a last panel of
/// one or two whole vectors; several blocks of rows, columns and depth; a last block of one row and
/// one column; several blocks of columns whose sums are kept from one part of the depth to the
/// next; and for several bands of a block of as many columns as the kernels of packed_product have,
/// and those of amx_product.
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
                                                                            {8, 64, 5},
                                                                            {8, 80, 5},
                                                                            {33, 400, 50},
                                                                            {200, 17, 801},
                                                                            {1100, 3, 401},
                                                                            {3, 1200, 40},
                                                                            {97, 385, 385}})
        call({m, n, k, ta, tb});
  call({520, 1160, 385, false, false});
  call({1100, 576, 385, false, false});
  call({600, 1152, 385, false, false});
}

}  // namespace own_product
