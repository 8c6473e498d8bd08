#include "store_error.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

void throw_store_timeout(const std::string& key, std::chrono::milliseconds timeout) {
  throw Error(ErrorKind::kPeer,
              fmt::format("no rank set '{}' in the rendezvous store within {:.1f} s", key,
                          static_cast<double>(timeout.count()) / 1000.0),
              "another rank has not reached this point: see its log");
}

void throw_store_ended(const std::string& key, const std::string& reason) {
  throw Error(ErrorKind::kPeer,
              fmt::format("the job ended while a rank waited for '{}' in the rendezvous store: {}",
                          key, reason));
}

}  // namespace hgt
