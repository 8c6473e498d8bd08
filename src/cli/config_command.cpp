#include "config_command.h"

#include "hgtrain/base/error.h"

#include "options.h"

namespace hgt {

void ConfigSource::add_options(Options& options) {
  options.add("FILE", file, "config file, - reads standard input").required();
  options.add("--world", world, "workers of the run, for the batch sizes");
}

LoadResult ConfigSource::load(const std::vector<std::string>& overrides) const {
  if (world.value_or(1) < 1)
    throw Error(ErrorKind::kConfig, fmt::format("--world {} is not positive", *world),
                "leave it out if the number is unknown");
  return load_config(file, {overrides, world});
}

std::string text_of(const Origin& origin) {
  switch (origin.kind) {
    case OriginKind::kDefault:
      return "default";
    case OriginKind::kFile:
    case OriginKind::kFlag:
    case OriginKind::kAuto:
      return origin.detail;
    case OriginKind::kDerived:
      return "from " + origin.detail;
  }
  return "";
}

}  // namespace hgt
