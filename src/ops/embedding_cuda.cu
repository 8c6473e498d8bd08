#include "cuda_launchers.h"
#include "cuda_reduce.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block a token. A token outside the vocabulary gives a row that is not a number: the loss shows
// it.
__global__ void gather_rows(EmbeddingArgs args) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t token = args.tokens[n];
  const bool known = token >= 0 && token < args.vocabulary;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) {
    const float word = known ? args.table[token * args.width + c] : NAN;
    const float place = args.positions ? args.positions[n % args.length * args.width + c] : 0.0f;
    args.out[n * args.width + c] = word + place;
  }
}

/// Bit i of word w: position first + 32 w + i holds the token. For a block of kThreads threads.
struct Matches {
  unsigned words[kThreads / kWarp];
};

__device__ void find_matches(const EmbeddingBwdArgs& args, std::int64_t first, std::int64_t end,
                             std::int32_t token, Matches& matches) {
  const std::int64_t n = first + threadIdx.x;
  const unsigned found = __ballot_sync(~0u, n < end && args.tokens[n] == token);
  __syncthreads();  // the words of the call before have been read
  if (threadIdx.x % kWarp == 0) matches.words[threadIdx.x / kWarp] = found;
  __syncthreads();
}

/// Whether the token stands at a position before n.
__device__ bool seen_before(const EmbeddingBwdArgs& args, std::int64_t n, std::int32_t token) {
  bool seen = false;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) seen = seen || args.tokens[i] == token;
  return __syncthreads_or(seen);
}

// A block a position: that of a token's first occurrence adds all of the token's gradients, in the
// order of the positions, so no two blocks write one row and every sum has one order.
__global__ void scatter_rows(EmbeddingBwdArgs args) {
  __shared__ Matches matches;
  const std::int64_t n = blockIdx.x;
  const std::int32_t token = args.tokens[n];
  if (token < 0 || token >= args.vocabulary || seen_before(args, n, token)) return;
  for (std::int64_t first = n; first < args.rows; first += kThreads) {
    find_matches(args, first, args.rows, token, matches);
    for (unsigned word = 0; word < kThreads / kWarp; ++word)
      for (unsigned bits = matches.words[word]; bits != 0; bits &= bits - 1) {
        const float* const dout = args.dout + (first + word * kWarp + __ffs(bits) - 1) * args.width;
        for (std::int64_t c = threadIdx.x; c < args.width; c += kThreads)
          args.dtable[token * args.width + c] += dout[c];
      }
  }
}

// A thread an element of dpositions.
__global__ void sum_positions(EmbeddingBwdArgs args) {
  const std::int64_t size = args.length * args.width;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= size) return;
  float sum = args.dpositions[i];
  for (std::int64_t at = i; at < args.rows * args.width; at += size) sum += args.dout[at];
  args.dpositions[i] = sum;
}

}  // namespace

void embedding_fwd(const EmbeddingArgs& args, CudaStreamState& stream) {
  launch(gather_rows, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
}

void embedding_bwd(const EmbeddingBwdArgs& args, CudaStreamState& stream) {
  launch(scatter_rows, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
  if (args.dpositions)
    launch(sum_positions, {{blocks_for(args.length * args.width, kThreads)}, {kThreads}}, stream,
           args);
}

}  // namespace hgt::cuda
