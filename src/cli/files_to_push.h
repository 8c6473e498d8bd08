#pragma once

#include "hgtrain/config/config.h"
#include "hgtrain/launch/pushed_files.h"

namespace hgt {

/// What distributed.push_data brings to other hosts: the token files with their indices and
/// manifests, and the tokenizer; to hosts that see the run folder also model.init, because the
/// others get the weights from rank 0. Throws the Errors of TokenFile::open().
PushedFiles files_to_push(const Config& config);

}  // namespace hgt
