#include "hgtrain/launch/survey.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include "hgtrain/base/host.h"
#include "hgtrain/base/no_pipe_signal.h"
#include "hgtrain/wire/job_key.h"

#include "agent_link.h"
#include "look_at_host.h"
#include "output_sink.h"
#include "placement.h"
#include "ssh_calls.h"
#include "ssh_failure.h"

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
      : with_links_(with_links),
        pair_limit_(io_),
        calls_(io_, hosts_, own_program(),
               {.answered = [this](RosterHost& host, OwnedFd in,
                                   OwnedFd out) { connect(host, std::move(in), std::move(out)); },
                .failed = [this](RosterHost& host, const std::string& why) { end(host, why); },
                .notice = notice}),
        hosts_(hosts.size()),
        found_(hosts.size()) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      hosts_[i].spec = found_[i].host.spec = hosts[i];
      found_[i].host.machine = static_cast<int>(i);
    }
  }

  SurveyResult run() {
    call_next();
    io_.run();
    SurveyResult out;
    out.no_address = no_address();
    out.hosts = std::move(found_);
    out.links = std::move(links_);
    return out;
  }

 private:
  SurveyedHost& found_of(const RosterHost& host) {
    return found_[static_cast<std::size_t>(&host - hosts_.data())];
  }

  std::string no_address() const {
    const auto has_ranks = [](const SurveyedHost& found) {
      return found.why_unusable.empty() && !found.host.spec.is_spare;
    };
    const auto first = std::ranges::find_if(found_, has_ranks);
    if (std::ranges::count_if(found_, has_ranks) < 2) return "";
    try {
      address_for_others(first->host.spec, hosts_[first - found_.begin()].address);
      return "";
    } catch (const Error& e) {
      return e.message() + ": " + e.hint();
    }
  }

  static bool is_called(const RosterHost& host) { return host.state == Candidate::State::kCalled; }

  void call_next() {
    if (std::ranges::none_of(hosts_, is_called)) return measure_links();
    calls_.call_next();
  }

  void connect(RosterHost& host, OwnedFd in, OwnedFd out) {
    const JobHost& spec = host.spec;
    host.link = std::make_unique<AgentLink>(
        io_, spec.name, std::move(in), std::move(out), no_output_,
        AgentLink::Events{[this, &host](AgentLink&, const Frame& frame) { on_frame(host, frame); },
                          [](const std::string&) {},
                          [this, &host](AgentLink&, const std::string& why) {
                            const std::string said = host.ssh->last_words();
                            end(host, said.empty() ? why : said);
                          }});
    host.link->start_lease(kAnswerLimit);
    Inspect wanted;
    wanted.address = spec.address;
    wanted.interface = spec.interface;
    wanted.with_libraries = wanted.with_doctor = true;
    host.link->send(wanted);
  }

  void on_frame(RosterHost& host, const Frame& frame) {
    InspectedHost& inspected = found_of(host).host;
    if (frame.kind == MessageKind::kAgentHello) {
      const auto hello = decode_payload<AgentHello>(frame.payload);
      if (hello.version != kAgentVersion)
        return end(host, "its hgtrain has another version than this one");
      if (inspected.spec.workers == 0) inspected.spec.workers = std::max(1, hello.gpus);
      host.address = hello.address;
    } else if (frame.kind == MessageKind::kHostFacts) {
      inspected.facts = decode_payload<HostFacts>(frame.payload);
      inspected.clock = host.link->clock_offset(inspected.facts.wall_ns);
      end(host, "");
    } else if (frame.kind == MessageKind::kLinkListening) {
      on_listening(host, decode_payload<LinkListening>(frame.payload));
    } else if (frame.kind == MessageKind::kLinkMeasured) {
      const auto measured = decode_payload<LinkMeasured>(frame.payload);
      end_link(host, measured.why, measured);
    }
  }

  void end(RosterHost& host, const std::string& why) {
    if (!is_called(host)) return end_link(host, why, {});
    host.state = why.empty() ? Candidate::State::kHere : Candidate::State::kAway;
    found_of(host).why_unusable = why;
    if (!why.empty()) found_of(host).hint = hint_for_ssh(host.spec, why);
    if (!with_links_ || !why.empty()) host.ssh->kill();
    call_next();
  }

  // ---- links ----

  /// Once all hosts have answered.
  void measure_links() {
    for (std::size_t i = 0; with_links_ && i < found_.size(); ++i)
      if (found_[i].why_unusable.empty()) usable_.push_back(i);
    rounds_ = pairs_in_rounds(usable_.size());
    next_round();
  }

  void next_round() {
    if (round_ == rounds_.size()) return io_.stop();
    first_link_ = links_.size();
    for (const auto& [a, b] : rounds_[round_])  // as in a job, where a rank calls those below it
      links_.push_back({.from = usable_[b], .to = usable_[a]});
    ++round_;
    open_.assign(links_.size() - first_link_, true);
    tokens_.clear();
    for (std::size_t i = first_link_; i < links_.size(); ++i) {
      const RosterHost& to = hosts_[links_[i].to];
      tokens_.push_back(JobKey::random().hex());
      to.link->send(ListenForLink{to.spec.address, to.spec.interface, tokens_.back()});
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
  std::size_t link_of(const RosterHost& host) const {
    for (std::size_t i = first_link_; i < links_.size(); ++i)
      if (open_[i - first_link_] &&
          (&hosts_[links_[i].from] == &host || &hosts_[links_[i].to] == &host))
        return i;
    return links_.size();
  }

  void on_listening(RosterHost& host, const LinkListening& where) {
    const std::size_t i = link_of(host);
    if (i == links_.size()) return;
    if (!where.why.empty()) return end_link(host, where.why, {});
    hosts_[links_[i].from].link->send(
        MeasureLink{where.address, where.port, tokens_[i - first_link_]});
  }

  void end_link(const RosterHost& host, const std::string& why, const LinkMeasured& measured) {
    const std::size_t i = link_of(host);
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
  asio::io_context io_;
  asio::steady_timer pair_limit_;
  NoOutput no_output_;
  SshCalls calls_;  // hosts_ refer to it
  std::vector<RosterHost> hosts_;
  std::vector<SurveyedHost> found_;                                       // of hosts_
  std::vector<std::size_t> usable_;                                       // of hosts_
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
  const NoPipeSignal no_signal;  // a host that leaves is one of the findings
  return Survey(hosts, with_links, notice).run();
}

}  // namespace hgt
