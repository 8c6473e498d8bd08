#include "comm_worker.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/wire/messages.h"

#include "environment.h"

namespace hgt {
namespace {

void measure(ControlChannel& channel, const std::vector<std::string>& args) {
  const Environment environment = read_environment();
  const GroupOptions group{.rank = environment.rank, .size = environment.world_size};
  auto comm = args[0] == "auto" ? connect_shared_memory(channel, group) : nullptr;
  const char* const backend = comm ? "shared memory" : "Gloo";
  if (!comm) comm = connect_gloo(channel, group, environment.master_host);

  nlohmann::ordered_json result =
      bench_comm(*comm, {args[1], std::stoll(args[2]), std::stoll(args[3]), std::stoll(args[4])});
  result["backend"] = backend;
  if (comm->rank() == 0)
    channel.send("result",
                 {{"text", args[5] == "json" ? result.dump(2) + "\n" : bench_text(result)}});
  for (const auto& size : result["sizes"])
    if (size["wrong"] != 0)
      throw Error(ErrorKind::kInternal,
                  fmt::format("{} elements of {} bytes came out wrong",
                              size["wrong"].get<std::int64_t>(), size["bytes"].get<std::int64_t>()),
                  "the machine's memory or network may be damaged: report it, with the table");
}

}  // namespace

int comm_worker(const std::vector<std::string>& args) {
  const auto channel = ControlChannel::open({
      .stop = [] { std::_Exit(kExitStoppedEarly); },
      .checkpoint = [] {},
      .abort = [](const std::string&) { std::_Exit(static_cast<int>(ErrorKind::kPeer)); },
      .lost = [] { std::_Exit(static_cast<int>(ErrorKind::kPeer)); },
  });
  try {
    if (args.size() != 6)
      throw Error(ErrorKind::kConfig, "hgtrain-worker bench_comm lacks a word",
                  "use hgtrain bench comm");
    measure(*channel, args);
    return 0;
  } catch (const Error& e) {
    std::fputs(e.render("hgtrain-worker").c_str(), stderr);
    channel->send("failed", failed_body(e));
    channel->flush();
    return e.exit_code();
  }
}

}  // namespace hgt
