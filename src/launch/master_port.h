#pragma once

#include "owned_fd.h"

namespace hgt {

/// MASTER_PORT, held for a program that will listen on it: bound but not listening, with
/// SO_REUSEADDR, so that nobody else is given the port meanwhile, but the job's own rank 0 can bind
/// it (PyTorch's store sets SO_REUSEADDR).
class MasterPort {
 public:
  /// 0 = any free one. Error(kDevice) where `wanted` is taken.
  explicit MasterPort(int wanted);
  int number() const { return number_; }

 private:
  OwnedFd fd_;
  int number_ = 0;
};

}  // namespace hgt
