#include "kernel.h"

// Bytes moved: the forward moves rows of both tables and out once; the backward moves dout once,
// the rows it is added to twice, and, for the order, 4 bytes per row and table entry a few times.

namespace hgt::cuda {
namespace {

constexpr unsigned kRowThreads = 128;

/// `otherwise` if there is no such row.
template <class T>
__device__ Vector<T> read_row(const void* table, std::int64_t row, std::int64_t rows,
                              std::int64_t c, std::int64_t width, float otherwise) {
  if (row >= 0 && row < rows)
    return read(static_cast<const T*>(table) + row * width + c, width - c);
  Vector<T> none;
  for (int i = 0; i < kVector<T>; ++i) none.set(i, otherwise);
  return none;
}

// One block per token. The row of an id that is out of range becomes NaN: the loss shows it.
template <class T>
__global__ void __launch_bounds__(kRowThreads) gather_rows(EmbeddingArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int64_t id = args.tokens[n];
  const std::int64_t place = args.position_ids ? args.position_ids[n] : n % args.length;
  for (std::int64_t c = threadIdx.x * kVector<T>; c < args.width; c += blockDim.x * kVector<T>) {
    Vector<T> out = read_row<T>(args.table, id - args.first, args.table_rows, c, args.width,
                                id >= 0 && id < args.vocabulary ? 0.0f : NAN);
    if (args.positions) {
      const Vector<T> position =
          read_row<T>(args.positions, place, args.length, c, args.width, NAN);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) out.set(i, out[i] + position[i]);
    }
    write(static_cast<T*>(args.out) + n * args.width + c, out, args.width - c);
  }
}

// The backward, dtable[ids[n] - first] += dout[n]: the rows are sorted by their id and, within an
// id, by their index, so that every sum has a fixed order. Atomics only count; they add no floats.

constexpr int kChunk = 64;  ///< sorted rows that a block sums

struct ScatterArgs {
  const std::int32_t* ids;  ///< [rows]; rows whose id the table does not have are left out
  std::int64_t first;       ///< the table's first id
  const void* dout;
  float* dtable;
  std::int64_t rows, width, table_rows;
  std::int32_t*
      begins;  ///< [table_rows + 1]: index in `sorted` at which each table row's rows begin
  std::int32_t *placed, *unsorted, *sorted;  ///< [table_rows], [rows], [rows]
  float* partial;  ///< [chunk][2][width]: an id begun earlier, one continued later

  __device__ std::int64_t table_row(std::int64_t n) const { return ids[n] - first; }
};

__device__ std::int64_t element_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__global__ void __launch_bounds__(kBlockThreads) clear_counts(ScatterArgs args) {
  const std::int64_t id = element_of_thread();
  if (id > args.table_rows) return;
  args.begins[id] = 0;
  if (id < args.table_rows) args.placed[id] = 0;
}

__device__ bool is_row(const ScatterArgs& args, std::int64_t id) {
  return id >= 0 && id < args.table_rows;
}

__global__ void __launch_bounds__(kBlockThreads) count_rows(ScatterArgs args) {
  const std::int64_t n = element_of_thread();
  if (n < args.rows && is_row(args, args.table_row(n)))
    atomicAdd(args.begins + args.table_row(n), 1);
}

constexpr int kScanThreads = 1024;

/// The sum over the threads before this one.
__device__ int sum_before(int value) {
  __shared__ int warps[kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  int sum = value;
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    const int other = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  for (unsigned i = 0; i < warp; ++i) sum += warps[i];
  return sum - value;
}

// One block: counts become sums of the counts before, with a range of them per thread.
__global__ void __launch_bounds__(kScanThreads) scan_counts(ScatterArgs args) {
  const std::int64_t each = (args.table_rows + kScanThreads) / kScanThreads;
  const std::int64_t first = threadIdx.x * each;
  int sum = 0;
  for (std::int64_t id = first; id < first + each && id <= args.table_rows; ++id)
    sum += args.begins[id];
  sum = sum_before(sum);
  for (std::int64_t id = first; id < first + each && id <= args.table_rows; ++id) {
    const int count = args.begins[id];
    args.begins[id] = sum;
    sum += count;
  }
}

__global__ void __launch_bounds__(kBlockThreads) place_rows(ScatterArgs args) {
  const std::int64_t n = element_of_thread();
  if (n >= args.rows || !is_row(args, args.table_row(n))) return;
  const std::int64_t id = args.table_row(n);
  args.unsorted[args.begins[id] + atomicAdd(args.placed + id, 1)] = static_cast<std::int32_t>(n);
}

// A row's place is the number of rows of its id before it. If an id has many, the threads of a warp
// read the same ones.
__global__ void __launch_bounds__(kBlockThreads) sort_rows(ScatterArgs args) {
  const std::int64_t at = element_of_thread();
  if (at >= args.begins[args.table_rows]) return;
  const std::int32_t n = args.unsorted[at];
  const std::int64_t id = args.table_row(n);
  const std::int32_t end = args.begins[id + 1];
  std::int32_t place = args.begins[id];
  for (std::int32_t i = args.begins[id]; i < end; ++i)
    if (args.unsorted[i] < n) ++place;
  args.sorted[place] = n;
}

/// Adds floats in memory to floats in registers.
template <class T, int kCount>
__device__ void add(Floats<kCount>& to, const void* flat, std::int64_t first, std::int64_t left) {
  Floats<kCount> more;
  more.template read<T>(flat, first, left);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to.x[i] += more.x[i];
}

template <int kCount>
__device__ void add_to(float* flat, std::int64_t first, Floats<kCount>& sums, std::int64_t left) {
  add<float>(sums, flat, first, left);
  sums.template write<float>(flat, first, left);
}

// One block per chunk of the sorted rows. If an id lies within the chunk, its sum goes into the
// table.
template <class T>
__global__ void __launch_bounds__(kRowThreads) add_chunks_of_rows(ScatterArgs args) {
  const std::int64_t chunk = blockIdx.x, first = chunk * kChunk, all = args.begins[args.table_rows];
  const std::int64_t last = first + kChunk < all ? first + kChunk : all;
  for (std::int64_t c = threadIdx.x * kVector<T>; c < args.width; c += blockDim.x * kVector<T>) {
    const std::int64_t left = args.width - c;
    for (std::int64_t at = first; at < last;) {
      const std::int64_t id = args.table_row(args.sorted[at]);
      const std::int64_t begin = args.begins[id], end = args.begins[id + 1];
      Floats<kVector<T>> sums;
      for (; at < end && at < last; ++at)
        add<T>(sums, args.dout, args.sorted[at] * args.width + c, left);
      if (begin >= first && end <= last)
        add_to(args.dtable, id * args.width + c, sums, left);
      else
        sums.template write<float>(args.partial,
                                   (2 * chunk + (begin < first ? 0 : 1)) * args.width + c, left);
    }
  }
}

// One block per chunk: sums the parts of the id that begins in it and continues after it.
__global__ void __launch_bounds__(kRowThreads) add_parts_of_rows(ScatterArgs args) {
  const std::int64_t chunk = blockIdx.x, first = chunk * kChunk, all = args.begins[args.table_rows];
  const std::int64_t last = first + kChunk;
  if (last >= all) return;
  const std::int64_t id = args.table_row(args.sorted[last - 1]);
  const std::int64_t end = args.begins[id + 1];
  if (args.begins[id] < first || end <= last) return;
  constexpr int kElements = kVector<float>;
  for (std::int64_t c = threadIdx.x * kElements; c < args.width; c += blockDim.x * kElements) {
    const std::int64_t left = args.width - c;
    Floats<kElements> sums;
    sums.read<float>(args.partial, (2 * chunk + 1) * args.width + c, left);
#pragma unroll 4
    for (std::int64_t next = chunk + 1; next * kChunk < end; ++next)
      add<float>(sums, args.partial, 2 * next * args.width + c, left);
    add_to(args.dtable, id * args.width + c, sums, left);
  }
}

// One vector of dpositions per thread.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) sum_positions(EmbeddingBwdArgs args) {
  const std::int64_t size = args.length * args.width, at = first_of_thread<T>(), left = size - at;
  if (left <= 0) return;
  Floats<kVector<T>> sums;
#pragma unroll 4
  for (std::int64_t i = at; i < args.rows * args.width; i += size) add<T>(sums, args.dout, i, left);
  add_to(args.dpositions, at, sums, left);
}

}  // namespace

void embedding_fwd(const EmbeddingArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    launch(gather_rows<T>, {{blocks_for(args.rows, 1)}, {kRowThreads}}, stream, args);
  });
}

namespace {

template <class T>
void scatter(ScatterArgs args, CudaStreamState& stream) {
  const std::int64_t chunks = (args.rows + kChunk - 1) / kChunk;
  const std::int64_t floats = 2 * chunks * args.width;
  args.partial = stream.scratch<float>(floats + 2 * args.table_rows + 1 + 2 * args.rows);
  args.begins = reinterpret_cast<std::int32_t*>(args.partial + floats);
  args.placed = args.begins + args.table_rows + 1;
  args.unsorted = args.placed + args.table_rows;
  args.sorted = args.unsorted + args.rows;
  const LaunchShape by_rows{{blocks_for(args.rows, kBlockThreads)}, {kBlockThreads}};
  launch(clear_counts, {{blocks_for(args.table_rows + 1, kBlockThreads)}, {kBlockThreads}}, stream,
         args);
  launch(count_rows, by_rows, stream, args);
  launch(scan_counts, {{1}, {kScanThreads}}, stream, args);
  launch(place_rows, by_rows, stream, args);
  launch(sort_rows, by_rows, stream, args);
  const LaunchShape by_chunks{{blocks_for(chunks, 1)}, {kRowThreads}};
  launch(add_chunks_of_rows<T>, by_chunks, stream, args);
  launch(add_parts_of_rows, by_chunks, stream, args);
}

}  // namespace

void embedding_bwd(const EmbeddingBwdArgs& args, CudaStreamState& stream) {
  if (args.rows == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    ScatterArgs to{args.tokens,     args.first, args.dout, args.dtable, args.rows, args.width,
                   args.table_rows, nullptr,    nullptr,   nullptr,     nullptr,   nullptr};
    scatter<T>(to, stream);
    if (!args.dpositions) return;
    if (!args.position_ids)
      return launch(sum_positions<T>, vectors_shape<T>(args.length * args.width), stream, args);
    to.ids = args.position_ids;
    to.first = 0;
    to.dtable = args.dpositions;
    to.table_rows = args.length;
    scatter<T>(to, stream);
  });
}

}  // namespace hgt::cuda
