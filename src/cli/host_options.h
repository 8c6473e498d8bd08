#pragma once

#include "hgtrain/launch/host_choice.h"

#include "options.h"

namespace hgt {

/// The flags of `train` and `launch` that say on which hosts, by the names that DeepSpeed and
/// torchrun have for them too. Those that count workers are the commands' own.
void add_host_options(Options& options, HostFlags& flags);

}  // namespace hgt
