#include <algorithm>

#include "kernel.h"

// Bytes moved: x twice.

namespace hgt::cuda {
namespace {

/// Floats of a table's row, of which `count` are left from `from` on: one per element of a vector
/// of T.
template <class T, bool kWhole>
struct Angles {
  float values[kVector<T>];

  __device__ Angles(const float* from, std::int64_t count) {
    constexpr int kFloats = kVector<float>;
#pragma unroll
    for (int first = 0; first < kVector<T>; first += kFloats) {
      const Vector<float> part = read_of_row<kWhole>(from + first, count - first);
#pragma unroll
      for (int i = 0; i < kFloats; ++i) values[first + i] = part[i];
    }
  }
};

// One block per position: it rotates its heads' pairs (i, i + width / 2), one vector per thread.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) rotate_pairs(RopeArgs args) {
  // In 32 bits, because devices have no instruction for divisions, and those of 64 bits take long;
  // a grid has fewer than 2^31 blocks.
  const unsigned n = blockIdx.x, length = static_cast<unsigned>(args.length);
  const std::int64_t b = n / length, t = n % length;
  const std::int64_t half = args.width / 2, place = args.position_ids ? args.position_ids[n] : t;
  const unsigned vectors = static_cast<unsigned>((half + kVector<T> - 1) / kVector<T>);
  T* const row =
      static_cast<T*>(args.x.data) + b * args.x.batch_stride + t * args.x.position_stride;
  for (unsigned at = threadIdx.x; at < args.heads * vectors; at += blockDim.x) {
    const std::int64_t c = std::int64_t{at % vectors} * kVector<T>, left = half - c;
    T* const first = row + at / vectors * args.x.head_stride + c;
    T* const second = first + half;
    const float *const cosines = args.cos + place * half + c, *const sines =
                                                                  args.sin + place * half + c;
    const bool whole =
        are_whole_vectors(left, first, second) && are_whole_vectors(left, cosines, sines);
    visit_whole(whole, [&](auto whole) {
      Vector<T> x = read_of_row<whole>(first, left), y = read_of_row<whole>(second, left);
      const Angles<T, whole> cos(cosines, left), sin(sines, left);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) {
        const float turn = args.direction * sin.values[i], a = x[i], d = y[i];
        x.set(i, a * cos.values[i] - d * turn);
        y.set(i, d * cos.values[i] + a * turn);
      }
      write_of_row<whole>(first, x, left);
      write_of_row<whole>(second, y, left);
    });
  }
}

}  // namespace

void rope(const RopeArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const std::int64_t vectors = (args.width / 2 + kVector<T> - 1) / kVector<T> * args.heads;
    const auto threads = static_cast<unsigned>(
        std::clamp<std::int64_t>((vectors + kWarp - 1) / kWarp * kWarp, kWarp, kBlockThreads));
    launch(rotate_pairs<T>, {{blocks_for(args.batch * args.length, 1)}, {threads}}, stream, args);
  });
}

}  // namespace hgt::cuda
