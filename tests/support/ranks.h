#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/comm/connect.h"

namespace hgt {

/// One store in memory that the ranks of a test share, all of them threads of one process.
class MemoryChannel : public ControlChannel {
 public:
  Progress& progress() override { return progress_; }
  void set(const std::string& key, const std::string& value) override { store_.set(key, value); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return store_.get(key, timeout);
  }
  void send(const std::string&, const nlohmann::json&) override {}
  void flush() override {}

 private:
  Progress progress_;
  MemoryStore store_;
};

/// How a rank of a test meets the others.
using Connect = std::function<std::unique_ptr<Communicator>(ControlChannel&, const GroupOptions&)>;

inline std::unique_ptr<Communicator> over_tcp(ControlChannel& channel,
                                              const GroupOptions& options) {
  return connect_tcp(channel, options);
}

/// With two ranks on each host; the last one may have one.
inline std::unique_ptr<Communicator> over_two_levels(ControlChannel& channel,
                                                     GroupOptions options) {
  options.host = std::to_string(options.rank / 2);
  return connect_tcp(channel, options);
}

inline std::unique_ptr<Communicator> over_shared_memory(ControlChannel& channel,
                                                        const GroupOptions& options) {
  auto communicator = connect_shared_memory(channel, options);
  if (!communicator) throw Error(ErrorKind::kPeer, "no shared memory");
  return communicator;
}

/// Runs `body` as each of `size` ranks at once. The error message of each, "" if there was none.
inline std::vector<std::string> run_ranks(
    const Connect& connect, int size, const std::function<void(Communicator&)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  MemoryChannel channel;
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto communicator =
            connect(channel, {.rank = rank, .size = size, .timeout = timeout});
        try {
          body(*communicator);
        } catch (...) {
          communicator->abort();
          throw;
        }
      } catch (const Error& e) {
        errors[rank] = e.render();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace hgt
