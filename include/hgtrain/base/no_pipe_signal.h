#pragma once

#include <csignal>

namespace hgt {

/// A reader that is gone is an error of the write, for as long as it lives.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~NoPipeSignal() { sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_;
};

}  // namespace hgt
