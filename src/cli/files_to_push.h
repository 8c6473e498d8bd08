#pragma once

#include <string>
#include <vector>

#include "hgtrain/config/config.h"
#include "hgtrain/launch/pushed_files.h"

namespace hgt {

/// The token files that workers open, as the config names them, each once.
std::vector<std::string> token_files_of(const Config& config);

/// What distributed.push_data brings to other hosts: the token files with their indices and
/// manifests, and the tokenizer; to hosts that see the run folder also `checkpoint`, from which the
/// run resumes, or if that is "" the weights of model.init: the others get these from rank 0.
/// Throws the Errors of TokenFile::open(), and Error(kData) if `checkpoint` cannot be read.
PushedFiles files_to_push(const Config& config, const std::string& checkpoint);

}  // namespace hgt
