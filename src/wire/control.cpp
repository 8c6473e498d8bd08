#include "hgtrain/wire/control.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/socket.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/job_key.h"

#include "stream_channel.h"

namespace hgt {
namespace {

/// The channel of a worker that no launcher started.
class LocalChannel final : public ControlChannel {
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

int integer_variable(const char* name) {
  const char* text = std::getenv(name);
  const std::string_view view = text ? text : "";
  int value = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} = '{}' is not a number of 0 or more", name, view),
                "the launcher sets it: do not start a worker with a part of its environment");
  return value;
}

}  // namespace

std::unique_ptr<ControlChannel> ControlChannel::open(Commands commands) {
  const char* key_text = std::getenv("HGTRAIN_JOB_KEY");
  if (std::getenv("HGTRAIN_CONTROL_FD") == nullptr || key_text == nullptr)
    return std::make_unique<LocalChannel>();
  const int fd = integer_variable("HGTRAIN_CONTROL_FD");
  const int rank = integer_variable("RANK");
  const JobKey key = JobKey::parse(key_text);
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    throw Error(ErrorKind::kConfig,
                fmt::format("HGTRAIN_CONTROL_FD = {} is not the stream of a launcher", fd),
                "start the worker through hgtrain, or without HGTRAIN_CONTROL_FD");
  unsetenv("HGTRAIN_CONTROL_FD");
  unsetenv("HGTRAIN_JOB_KEY");
  return open_stream_channel(fd, rank, key, std::move(commands));
}

}  // namespace hgt
