#include "hgtrain/config/newest_checkpoint.h"

#include <algorithm>
#include <charconv>

#include "hgtrain/base/file.h"

namespace hgt {

std::optional<SavedStep> newest_checkpoint(const std::string& run_dir) {
  const std::string folder = run_dir + "/checkpoints/", prefix = "step_";
  if (!path_exists(folder + "latest")) return std::nullopt;
  std::string name = read_file(folder + "latest", 256);
  name.erase(std::min(name.find('\n'), name.size()));
  SavedStep saved{folder + name};
  const char* const end = name.data() + name.size();
  if (!name.starts_with(prefix) ||
      std::from_chars(name.data() + prefix.size(), end, saved.step).ptr != end ||
      !is_folder(saved.path))
    return std::nullopt;
  return saved;
}

}  // namespace hgt
