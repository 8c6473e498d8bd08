#include "worker_program.h"

#include <filesystem>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

std::string worker_program() {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hgtrain-worker";
  if (!std::filesystem::exists(program))
    throw Error(ErrorKind::kConfig, fmt::format("there is no {}", program.string()),
                "hgtrain and hgtrain-worker belong into one folder; scripts/build makes both");
  return program.string();
}

}  // namespace hgt
