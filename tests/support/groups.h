#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hgtrain/comm/groups.h"
#include "hgtrain/config/config.h"

#include "support/ranks.h"

namespace hgt {

/// Runs `body` as each of `size` ranks at once, with the groups of the config's layout. The error
/// message of each, "" if there was none.
inline std::vector<std::string> run_groups(const Connect& connect, const Config& config, int size,
                                           const std::function<void(const Groups&)>& body) {
  const Layout layout = make_layout(config.parallelism, size);
  MemoryChannel channel;
  const auto run = [&](Communicator& world) {
    ConnectedGroups groups(layout, config.model.tie_word_embeddings, world,
                           {.timeout = std::chrono::seconds(30)}, [&](const GroupOptions& options) {
                             return options.size == 0 ? nullptr : connect(channel, options);
                           });
    try {
      body(groups.get());
    } catch (...) {
      groups.abort();
      throw;
    }
  };
  return run_ranks(connect, size, run);
}

}  // namespace hgt
