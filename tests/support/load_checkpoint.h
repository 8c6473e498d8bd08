#pragma once

#include <string>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

/// Reads the whole checkpoint into `flat`.
inline LoadedCheckpoint load_checkpoint(const std::string& folder, const ModelConfig& model,
                                        const ParameterTable& table, const FlatState& flat) {
  const CheckpointReader reader(folder, model, table, flat);
  reader.read();
  return reader.loaded();
}

}  // namespace hgt
