#pragma once

#include <memory>

#include "hgtrain/wire/control.h"
#include "hgtrain/wire/job_key.h"

namespace hgt {

/// A channel over the connected stream socket `fd`, which it owns from here on. Says hello.
std::unique_ptr<ControlChannel> open_stream_channel(int fd, int rank, const JobKey& key,
                                                    ControlChannel::Commands commands);

}  // namespace hgt
