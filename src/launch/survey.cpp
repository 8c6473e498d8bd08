#include "hgtrain/launch/survey.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include "hgtrain/base/host.h"
#include "hgtrain/wire/job_key.h"

#include "agent_link.h"
#include "look_at_host.h"
#include "output_sink.h"
#include "placement.h"
#include "program_files.h"
#include "ssh_failure.h"
#include "ssh_host.h"

namespace hgt {
namespace {

constexpr std::chrono::seconds kAnswerLimit{60};
constexpr std::chrono::seconds kPairLimit{15};

/// The agents start no ranks.
class NoOutput final : public OutputSink {
 public:
  void write(int, Stream, std::string_view) override {}
  void end(int) override {}
  bool is_full() const override { return false; }
};

class Survey {
 public:
  Survey(const std::vector<JobHost>& hosts, bool with_links,
         const std::function<void(const std::string& text)>& notice)
      : with_links_(with_links), notice_(notice), pair_limit_(io_), program_(own_program()) {
    calls_.resize(hosts.size());
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      calls_[i].found.host.spec = hosts[i];
      calls_[i].found.host.machine = static_cast<int>(i);
    }
  }

  SurveyResult run() {
    call_next();
    io_.run();
    SurveyResult out;
    out.no_address = no_address();
    for (Call& call : calls_) out.hosts.push_back(std::move(call.found));
    out.links = std::move(links_);
    return out;
  }

 private:
  struct Call {
    SurveyedHost found;
    std::unique_ptr<SshHost> ssh;
    std::unique_ptr<AgentLink> link;
    std::string address;  // at which ssh has reached it
    bool is_done = false;
  };

  std::string no_address() const {
    const auto has_ranks = [](const Call& call) {
      return call.found.why_unusable.empty() && !call.found.host.spec.is_spare;
    };
    const auto first = std::ranges::find_if(calls_, has_ranks);
    if (std::ranges::count_if(calls_, has_ranks) < 2) return "";
    try {
      address_for_others(first->found.host.spec, first->address);
      return "";
    } catch (const Error& e) {
      return e.message() + ": " + e.hint();
    }
  }

  void call_next() {
    if (std::ranges::all_of(calls_, &Call::is_done)) return measure_links();
    auto open = std::ranges::count_if(calls_, [](const Call& c) { return c.ssh && !c.is_done; });
    for (Call& call : calls_) {
      if (call.ssh || open == kMaxSshCalls) continue;
      ++open;
      start(call);
    }
  }

  void start(Call& call) {
    const JobHost& spec = call.found.host.spec;
    call.ssh = std::make_unique<SshHost>(
        io_, spec, program_,
        SshHost::Events{[this, &spec](std::size_t bytes) { notice_(text_of_sending(spec, bytes)); },
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
        return end(call, "its hgtrain has another version than this one");
      if (host.spec.workers == 0) host.spec.workers = std::max(1, hello.gpus);
      call.address = hello.address;
    } else if (frame.kind == MessageKind::kHostFacts) {
      host.facts = decode_payload<HostFacts>(frame.payload);
      host.clock = call.link->clock_offset(host.facts.wall_ns);
      end(call, "");
    } else if (frame.kind == MessageKind::kLinkListening) {
      on_listening(call, decode_payload<LinkListening>(frame.payload));
    } else if (frame.kind == MessageKind::kLinkMeasured) {
      const auto measured = decode_payload<LinkMeasured>(frame.payload);
      end_link(call, measured.why, measured);
    }
  }

  void end(Call& call, const std::string& why) {
    if (call.is_done) return end_link(call, why, {});
    call.is_done = true;
    call.found.why_unusable = why;
    if (!why.empty()) call.found.hint = hint_for_ssh(call.found.host.spec, why);
    if (!with_links_ || !why.empty()) call.ssh->kill();
    call_next();
  }

  // ---- links ----

  /// Once all hosts have answered.
  void measure_links() {
    for (std::size_t i = 0; with_links_ && i < calls_.size(); ++i)
      if (calls_[i].found.why_unusable.empty()) usable_.push_back(i);
    rounds_ = pairs_in_rounds(usable_.size());
    next_round();
  }

  void next_round() {
    if (round_ == rounds_.size()) return io_.stop();
    first_link_ = links_.size();
    for (const auto& [a, b] : rounds_[round_])
      links_.push_back({.from = usable_[a], .to = usable_[b]});
    ++round_;
    open_.assign(links_.size() - first_link_, true);
    tokens_.clear();
    for (std::size_t i = first_link_; i < links_.size(); ++i) {
      const JobHost& spec = calls_[links_[i].to].found.host.spec;
      tokens_.push_back(JobKey::random().hex());
      calls_[links_[i].to].link->send(ListenForLink{spec.address, spec.interface, tokens_.back()});
    }
    pair_limit_.expires_after(kPairLimit);
    pair_limit_.async_wait([this](const std::error_code& error) {
      if (error) return;
      for (std::size_t i = first_link_; i < links_.size(); ++i)
        if (open_[i - first_link_])
          links_[i].why_unusable = fmt::format("it takes more than {} s", kPairLimit.count());
      next_round();
    });
  }

  /// The link of this round that has the host; none: its answer has come too late.
  std::size_t link_of(const Call& call) const {
    for (std::size_t i = first_link_; i < links_.size(); ++i)
      if (open_[i - first_link_] &&
          (&calls_[links_[i].from] == &call || &calls_[links_[i].to] == &call))
        return i;
    return links_.size();
  }

  void on_listening(Call& call, const LinkListening& where) {
    const std::size_t i = link_of(call);
    if (i == links_.size()) return;
    if (!where.why.empty()) return end_link(call, where.why, {});
    calls_[links_[i].from].link->send(
        MeasureLink{where.address, where.port, tokens_[i - first_link_]});
  }

  void end_link(const Call& call, const std::string& why, const LinkMeasured& measured) {
    const std::size_t i = link_of(call);
    if (i == links_.size()) return;
    links_[i].why_unusable = why;
    links_[i].round_trip_ns = measured.round_trip_ns;
    links_[i].bytes_per_second = measured.bytes_per_second;
    open_[i - first_link_] = false;
    if (std::ranges::find(open_, true) != open_.end()) return;
    pair_limit_.cancel();
    next_round();
  }

  const bool with_links_;
  const std::function<void(const std::string& text)>& notice_;
  asio::io_context io_;
  asio::steady_timer pair_limit_;
  const ProgramFiles program_;
  NoOutput no_output_;
  std::vector<Call> calls_;
  std::vector<std::size_t> usable_;                                       // of calls_
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> rounds_;  // of usable_
  std::size_t round_ = 0;                                                 // the next one
  std::vector<SurveyedLink> links_;
  std::size_t first_link_ = 0;  // of this round
  std::vector<bool> open_;      // those of this round that are being measured
  std::vector<std::string> tokens_;
};

}  // namespace

std::vector<std::vector<std::pair<std::size_t, std::size_t>>> pairs_in_rounds(std::size_t num) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> out;
  if (num < 2) return out;
  // All but the first go round a table; with an odd number one of them has no partner each time.
  const std::size_t seats = num + num % 2;
  std::vector<std::size_t> at(seats);
  for (std::size_t i = 0; i < seats; ++i) at[i] = i;
  for (std::size_t round = 0; round + 1 < seats; ++round) {
    auto& pairs = out.emplace_back();
    for (std::size_t i = 0; i < seats / 2; ++i) {
      const auto [low, high] = std::minmax(at[i], at[seats - 1 - i]);
      if (high < num) pairs.emplace_back(low, high);
    }
    std::ranges::rotate(at.begin() + 1, at.end() - 1, at.end());
  }
  return out;
}

SurveyResult survey_hosts(const std::vector<JobHost>& hosts, bool with_links,
                          const std::function<void(const std::string& text)>& notice) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // a host that leaves is one of the findings
  SurveyResult out = Survey(hosts, with_links, notice).run();
  std::signal(SIGPIPE, before);
  return out;
}

}  // namespace hgt
