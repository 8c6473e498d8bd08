#include <algorithm>

#include "hgtrain/base/element.h"

#include "kernels.h"

namespace hgt::cpu {

void embedding_fwd(const Tensor& tokens, const Tensor& table, std::int64_t first,
                   const Tensor& positions, const Tensor& position_ids, const Tensor& out,
                   ThreadPool& pool) {
  const std::int64_t length = tokens.size(1), width = table.size(1), rows = table.size(0);
  const std::int32_t* const ids = tokens.data<std::int32_t>();
  const std::int32_t* const places = data_or_null<std::int32_t>(position_ids);
  visit_element(table.dtype(), [&]<class T>(T) {
    const T* const table_VC = table.data<T>();
    const T* const positions_TC = positions ? positions.data<T>() : nullptr;
    T* const out_NC = out.data<T>();
    pool.parallel_for(tokens.numel(), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t row = ids[n] - first;
        const T* const word = row >= 0 && row < rows ? table_VC + row * width : nullptr;
        const T* const place =
            positions_TC ? positions_TC + (places ? places[n] : n % length) * width : nullptr;
        T* const y = out_NC + n * width;
        if (word && place)
          for (std::int64_t c = 0; c < width; ++c) y[c] = word[c] + place[c];
        else if (word || place)
          std::copy_n(word ? word : place, width, y);
        else
          std::fill_n(y, width, T(0.0f));
      }
    });
  });
}

void embedding_bwd(const Tensor& tokens, const Tensor& dout, const Tensor& dtable,
                   std::int64_t first, const Tensor& dpositions, const Tensor& position_ids,
                   ThreadPool& pool) {
  const std::int64_t rows = tokens.numel(), length = tokens.size(1), width = dtable.size(1);
  const std::int32_t* const ids = tokens.data<std::int32_t>();
  const std::int32_t* const places = data_or_null<std::int32_t>(position_ids);
  float* const dtable_VC = dtable.data<float>();
  float* const dpositions_TC = dpositions ? dpositions.data<float>() : nullptr;
  visit_element(dout.dtype(), [&]<class T>(T) {
    const T* const dout_NC = dout.data<T>();
    // By columns: every sum has a fixed order, and no two threads write one element.
    pool.parallel_for(width, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = 0; n < rows; ++n) {
        const T* const dy = dout_NC + n * width;
        if (const std::int64_t row = ids[n] - first; row >= 0 && row < dtable.size(0)) {
          float* const word = dtable_VC + row * width;
          for (std::int64_t c = begin; c < end; ++c) word[c] += dy[c];
        }
        if (!dpositions_TC) continue;
        float* const place = dpositions_TC + (places ? places[n] : n % length) * width;
        for (std::int64_t c = begin; c < end; ++c) place[c] += dy[c];
      }
    });
  });
}

}  // namespace hgt::cpu
