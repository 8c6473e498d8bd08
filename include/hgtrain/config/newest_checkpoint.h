#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hgt {

struct SavedStep {
  std::string path;  ///< of the checkpoint
  std::int64_t step = 0;
};

/// The checkpoint that a run folder's checkpoints/latest names; nothing where it has none.
std::optional<SavedStep> newest_checkpoint(const std::string& run_dir);

}  // namespace hgt
