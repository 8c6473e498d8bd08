#pragma once

#include <string>

#include "hgtrain/comm/owner_files.h"
#include "hgtrain/wire/control.h"
#include "hgtrain/wire/requests.h"

#include "environment.h"

namespace hgt {

struct Config;

/// The config of the job. Rank 0 reads it from `path` and sends it to all, because other hosts may
/// lack the file. Error(kConfig) if this rank runs another program than rank 0.
Config config_of_job(ControlChannel& channel, const Environment& environment,
                     const std::string& path);

/// Error(kData) if this host has another tokenizer at tokenizer.path than rank 0. Checkpoints get
/// rank 0's, so a host without one is fine.
void require_same_tokenizer(ControlChannel& channel, const Environment& environment,
                            const std::string& path);

/// The folders that ranks read and write together, and whether this host sees them: that of the
/// run, and those of the weights that it begins with.
OwnerFiles::Folders folders_of_job(const TrainRequest& request, const Config& config,
                                   const Environment& environment);

}  // namespace hgt
