#pragma once

#include "tiny_run.h"

namespace hgt {

inline const std::vector<std::int64_t> kWteShape{8, 4}, kNormShape{4};

/// The two tensors of a TinyRun as an HF folder has them.
struct Weights {
  TinyRun run;
  std::vector<float> wte, norm;
  Weights() {
    run.at(5);
    wte.assign(run.parameters.begin(), run.parameters.begin() + 32);
    norm.assign(run.parameters.begin() + 64, run.parameters.begin() + 68);
  }
  std::vector<float> load(const std::string& folder) const {
    std::vector<float> out(run.parameters.size());
    load_hf_weights(folder, run.table, flat_tensor(out));
    return out;
  }
};

}  // namespace hgt
