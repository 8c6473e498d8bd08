#pragma once

#include <cstdint>

// Limits of kernels, and sizes of their scratch memory: what both the kernels and the plan of a job
// must know. Both use these constants and functions, so neither can change without the other. Sizes
// are not checked for overflow: no config that is accepted comes near. nvcc compiles this header.

namespace hgt {

/// n, rounded up to a multiple of `unit`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace hgt

/// Scratch memory of the CPU's threads.
namespace hgt::cpu {

/// Attention computes tiles of this many queries and keys. Rows of a head are padded to whole
/// vectors of the widest kind.
inline constexpr std::int64_t kAttentionTile = 64, kAttentionVector = 16;

/// The floats that attention's backward needs in a thread: five matrices of a head's keys and five
/// of a tile's queries, three tiles of scores and two rows of them. The forward needs less.
constexpr std::int64_t attention_bwd_floats(std::int64_t keys, std::int64_t head_dim) {
  constexpr std::int64_t kTile = kAttentionTile;
  const std::int64_t rows = round_up(keys, kTile) + kTile;
  return 5 * rows * round_up(head_dim, kAttentionVector) + kTile * (3 * kTile + 2);
}

/// Our own kernels for products pack a block of each operand, at most kPackedDepth deep: without
/// AMX, of kPackedColumns columns of the right one, and of kPackedRows rows of the left one. If c
/// has 16 bits, they compute kPackedBand rows of c at a time. With AMX, a block has other sides,
/// but takes no more memory.
inline constexpr std::int64_t kPackedDepth = 384, kPackedColumns = 576, kPackedRows = 96,
                              kPackedBand = 1056;
/// The rows of the left block have gaps between them.
inline constexpr std::int64_t kPackedLeftFloats = kPackedRows * (kPackedDepth + 16);
/// The floats that our own kernels need in a thread: the first if c is fp32, the second if not.
inline constexpr std::int64_t kPackedWideFloats = kPackedDepth * kPackedColumns + kPackedLeftFloats;
inline constexpr std::int64_t kPackedFloats = kPackedWideFloats + kPackedBand * kPackedColumns;
/// Whether a product, c of m x n and sums of k terms, is so large that the kernels that can compute
/// it are timed, and the fastest one is used.
constexpr bool is_timed(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= 1e8;
}

/// The gradients of a norm's gain and bias are summed over this many chunks of the rows.
inline constexpr std::int64_t kNormChunks = 64;
/// The sums of a chunk: a gradient of the gain and, in a layer norm, one of the bias.
constexpr std::int64_t norm_sums(std::int64_t width, bool layer_norm) {
  return layer_norm ? 2 * width : width;
}

}  // namespace hgt::cpu

/// Limits of a GPU's kernels, and their memory.
namespace hgt::cuda {

inline constexpr std::int64_t kMaxRowBytes = 16 << 10;  ///< of the norms
inline constexpr std::int64_t kMaxHeadDim = 256;        ///< of our own attention

/// The rows of logits begin at multiples of this many elements, because cuBLAS's fastest kernels
/// need multiples of 16 bytes.
inline constexpr std::int64_t kVocabularyUnit = 128;

/// The largest workspace of a matrix product: what cuBLAS recommends on sm_90.
inline constexpr std::int64_t kProductWorkspaceBytes = 32 << 20;

/// cuDNN's deterministic attention backward computes as many heads at once as fit into this, or
/// into more if the plan says so, but at least all that share a key head.
inline constexpr std::int64_t kAttentionPartBytes = 256 << 20;
/// What it needs for a head: a matrix of 16 bits, queries x keys.
constexpr std::int64_t attention_head_bytes(std::int64_t seq_length) {
  const std::int64_t rows = round_up(seq_length, 128);
  return 2 * rows * rows;
}
/// What its other backward needs, which adds in any order and computes all heads at once: fp32 sums
/// of a head's gradients of q, and a sum for each query.
constexpr std::int64_t unordered_attention_head_bytes(std::int64_t seq_length,
                                                      std::int64_t head_dim) {
  return 4 * round_up(seq_length, 128) * (head_dim + 1);
}

}  // namespace hgt::cuda
