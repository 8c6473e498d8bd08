#pragma once

#include <cstdint>

#include "hgtrain/base/sample_rows.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Says which samples the rows of a tensor are. It lies in memory of the stream's device, so that
/// the queued work, and a graph of it, is the same in every step.
struct SampleKey {
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  ///< row 0 is this sample of the global step
};

/// Which elements are dropped. Element e of sample s, in column c of C of token t: e = t C + c, is
/// kept if a uniform Philox number, keyed by (seed, step, s) and counted by (site, e), is at least
/// `probability`. Nothing is stored: the backward draws the same numbers, and no split of the batch
/// or of its samples changes any.
struct Dropout {
  float probability = 0;  ///< in [0, 1); 0: nothing is drawn
  std::uint64_t seed = 0;
  const SampleKey* samples = nullptr;  ///< required unless probability is 0
  std::uint64_t site = 0;              ///< each place of the model that drops something has its own
  SampleRows rows = {};                ///< of dropout and dropout_add
};

/// y = x / (1 - probability) for kept elements, else 0. The backward is the same function.
///
///   x, y  [rows, ...]  fp32, bf16 or fp16, contiguous; y may be x itself
void dropout(const Tensor& x, const Dropout& options, const Tensor& y, Stream stream);

/// y = x + dropout(branch): the residual connection. y may be x itself.
///
///   x, branch, y  [rows, ...]  fp32, bf16 or fp16, contiguous
void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 Stream stream);

}  // namespace hgt
