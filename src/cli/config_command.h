#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/config/load.h"

namespace hgt {

class Options;

/// What the `config` commands have in common: a file, overrides, a number of workers.
struct ConfigSource {
  std::string file;
  std::optional<std::int64_t> world;

  void add_options(Options& options);
  LoadResult load(const std::vector<std::string>& overrides) const;
};

/// "file configs/x.json:12", "flag --a.b", "auto", "default".
std::string text_of(const Origin& origin);

}  // namespace hgt
