#pragma once

#include "hgtrain/base/error.h"

namespace hgt {

/// What a communicator throws after abort(), in the ranks that have not failed themselves.
inline Error aborted_error() {
  return {ErrorKind::kPeer, "communication was aborted, because the job is ending"};
}

}  // namespace hgt
