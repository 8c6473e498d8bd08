#include "hgtrain/launch/survey.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <asio/io_context.hpp>
#include <fmt/format.h>

#include "agent_link.h"
#include "look_at_host.h"
#include "output_sink.h"
#include "program_files.h"
#include "ssh_failure.h"
#include "ssh_host.h"

namespace hgt {
namespace {

constexpr std::ptrdiff_t kMaxCalls = 8;  // at once, as Roster
constexpr std::chrono::seconds kAnswerLimit{60};

/// The agents start no ranks.
class NoOutput final : public OutputSink {
 public:
  void write(int, Stream, std::string_view) override {}
  void end(int) override {}
  bool is_full() const override { return false; }
};

class Survey {
 public:
  Survey(const std::vector<JobHost>& hosts,
         const std::function<void(const std::string& host, std::size_t bytes)>& sending)
      : sending_(sending), program_(std::filesystem::read_symlink("/proc/self/exe")) {
    calls_.resize(hosts.size());
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      calls_[i].found.host.spec = hosts[i];
      calls_[i].found.host.machine = static_cast<int>(i);
    }
  }

  std::vector<SurveyedHost> run() {
    call_next();
    io_.run();
    std::vector<SurveyedHost> out;
    for (Call& call : calls_) out.push_back(std::move(call.found));
    return out;
  }

 private:
  struct Call {
    SurveyedHost found;
    std::unique_ptr<SshHost> ssh;
    std::unique_ptr<AgentLink> link;
    bool is_done = false;
  };

  void call_next() {
    if (std::ranges::all_of(calls_, &Call::is_done)) return io_.stop();
    auto open = std::ranges::count_if(calls_, [](const Call& c) { return c.ssh && !c.is_done; });
    for (Call& call : calls_) {
      if (call.ssh || open == kMaxCalls) continue;
      ++open;
      start(call);
    }
  }

  void start(Call& call) {
    const std::string& name = call.found.host.spec.name;
    call.ssh = std::make_unique<SshHost>(
        io_, call.found.host.spec, program_,
        SshHost::Events{[this, name](std::size_t bytes) { sending_(name, bytes); },
                        [this, &call](OwnedFd in, OwnedFd out) {
                          connect(call, std::move(in), std::move(out));
                        },
                        [this, &call](const std::string& why) { end(call, why); }});
  }

  void connect(Call& call, OwnedFd in, OwnedFd out) {
    const JobHost& spec = call.found.host.spec;
    call.link = std::make_unique<AgentLink>(
        io_, spec.name, std::move(in), std::move(out), no_output_,
        AgentLink::Events{[this, &call](AgentLink&, const Frame& frame) { on_frame(call, frame); },
                          [](const std::string&) {},
                          [this, &call](AgentLink&, const std::string& why) {
                            const std::string said = call.ssh->last_words();
                            end(call, said.empty() ? why : said);
                          }});
    call.link->start_lease(kAnswerLimit);
    Inspect wanted;
    wanted.address = spec.address;
    wanted.interface = spec.interface;
    wanted.with_libraries = wanted.with_doctor = true;
    call.link->send(wanted);
  }

  void on_frame(Call& call, const Frame& frame) {
    InspectedHost& host = call.found.host;
    if (frame.kind == MessageKind::kAgentHello) {
      const auto hello = decode_payload<AgentHello>(frame.payload);
      if (hello.version != kAgentVersion)
        return end(call, "its hgtrain is of another version than this one");
      if (host.spec.workers == 0) host.spec.workers = std::max(1, hello.gpus);
    } else if (frame.kind == MessageKind::kHostFacts) {
      host.facts = decode_payload<HostFacts>(frame.payload);
      if (const auto ahead = call.link->ahead_ns())
        host.clock =
            ClockOffset{*ahead + host.facts.wall_ns - wall_ns(), call.link->uncertainty_ns()};
      end(call, "");
    }
  }

  void end(Call& call, const std::string& why) {
    if (call.is_done) return;
    call.is_done = true;
    call.found.why_unusable = why;
    if (!why.empty()) call.found.hint = hint_for_ssh(call.found.host.spec, why);
    call.ssh->kill();
    call_next();
  }

  const std::function<void(const std::string& host, std::size_t bytes)>& sending_;
  const ProgramFiles program_;
  asio::io_context io_;
  NoOutput no_output_;
  std::vector<Call> calls_;
};

}  // namespace

std::vector<SurveyedHost> survey_hosts(
    const std::vector<JobHost>& hosts,
    const std::function<void(const std::string& host, std::size_t bytes)>& sending) {
  return Survey(hosts, sending).run();
}

}  // namespace hgt
