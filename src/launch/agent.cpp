#include "agent.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <sstream>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/own_thread.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/machine/network.h"

#include "guard.h"
#include "look_at_host.h"

namespace hgt {
namespace {

constexpr std::int64_t kWindowBytes = 1 << 20;
constexpr std::int64_t kMaxLeaseMs = 86'400'000;
// A driver that has been asked ends better before its process, but a GPU that has failed may never
// answer.
constexpr std::chrono::seconds kLookLimit{2};

/// By which the launcher, or the jump host next to us, has reached this host; "" if it has dialled.
std::string ssh_address() {
  std::string client, port, address;
  const char* const connection = std::getenv("SSH_CONNECTION");  // CLIENT PORT SERVER PORT
  std::istringstream(connection ? connection : "") >> client >> port >> address;
  return address;
}

}  // namespace

// ---- the window ----

void Agent::Window::write(int rank, Stream stream, std::string_view text) {
  open_bytes_ += std::ssize(text);
  link_.send(Output{rank, static_cast<std::uint8_t>(stream), std::string(text)});
}

void Agent::Window::end(int rank) {
  link_.send(Output{.rank = rank, .is_last = true});
}

bool Agent::Window::is_full() const {
  return open_bytes_ >= kWindowBytes;
}

// ---- the agent ----

Agent::Agent(Context context, OwnedFd in, OwnedFd out)
    : context_(std::move(context)),
      link_(context_.io, std::move(in), std::move(out),
            {[this](const Frame& frame) { on_frame(frame); },
             [this](const std::string& why) { on_stream_ended(why); }}),
      window_(link_),
      logs_(context_.io,
            [this] {
              if (ranks_) ranks_->resume_output();
            }),
      lease_(context_.io, link_, "the launcher", Lease::Standstill::kCounts, [this] { give_up(); }),
      end_timer_(context_.io) {
  if (context_.lease.count() > 0) lease_.start(context_.lease);
}

Agent::~Agent() {
  if (!look_) return;
  look_end_.wait_for(kLookLimit);
  const std::lock_guard lock(look_->mutex);
  look_->agent = nullptr;
}

void Agent::say_hello(VisibleDevices devices) {
  devices_ = std::move(devices);
  link_.send(AgentHello{kAgentVersion, ssh_address(), static_cast<int>(devices_->gpus.size())});
  answer_inspection();
}

void Agent::look_at_devices() {
  const auto new_look = std::make_shared<Look>();
  new_look->agent = this;
  look_end_ = in_own_thread([look = new_look, limit = context_.driver_limit] {
    const auto post = [&look](const std::function<void(Agent&)>& act) {
      const std::lock_guard lock(look->mutex);
      if (Agent* const agent = look->agent)
        asio::post(agent->context_.io, [agent, act] { act(*agent); });
    };
    try {
      post([devices = visible_gpus(limit)](Agent& agent) { agent.say_hello(devices); });
    } catch (...) {
      post([error = std::current_exception()](Agent&) { std::rethrow_exception(error); });
    }
  });
  look_ = new_look;
}

void Agent::answer_inspection() {
  if (!inspection_ || !devices_) return;
  link_.send(look_at_host(*inspection_, ssh_address(), *devices_));
  inspection_.reset();
}

template <class Message, class Act>
void Agent::with_ranks(const Frame& frame, const Act& act) {
  const auto message = decode_payload<Message>(frame.payload);
  if (!ranks_ || ranks_->attempt() != message.attempt) return;
  ranks_->once_started([&ranks = *ranks_, message, act] { std::invoke(act, ranks, message); });
}

void Agent::on_frame(const Frame& frame) {
  lease_.hear();
  switch (frame.kind) {
    case MessageKind::kInspect:
      inspection_ = decode_payload<Inspect>(frame.payload);
      return answer_inspection();
    case MessageKind::kListenForLink:
      return listen_for_link(decode_payload<ListenForLink>(frame.payload));
    case MessageKind::kMeasureLink:
      return measure(decode_payload<MeasureLink>(frame.payload));
    case MessageKind::kPushFiles:
      return receive_files(decode_payload<PushFiles>(frame.payload));
    case MessageKind::kFilePart:
      return files().take(decode_payload<FilePart>(frame.payload));
    case MessageKind::kFileHash:
      return files().take(decode_payload<FileHash>(frame.payload));
    case MessageKind::kReservePort:
      return reserve_port(decode_payload<ReservePort>(frame.payload));
    case MessageKind::kSpawn:
      return spawn(decode_payload<Spawn>(frame.payload));
    case MessageKind::kRankCommand:
      return with_ranks<RankCommand>(frame, &LocalRanks::command);
    case MessageKind::kSignalRanks:
      return with_ranks<SignalRanks>(frame, &LocalRanks::signal);
    case MessageKind::kKillGuards:
      return with_ranks<KillGuards>(frame, [](LocalRanks& ranks, auto&) { ranks.kill_guards(); });
    case MessageKind::kCloseChannel:
      return with_ranks<CloseChannel>(frame, [](LocalRanks& ranks, const CloseChannel& message) {
        ranks.close_channel(message.rank);
      });
    case MessageKind::kAgentStoreValue:
      return with_ranks<AgentStoreValue>(frame, &LocalRanks::put);
    case MessageKind::kWelcome: {
      const auto message = decode_payload<Welcome>(frame.payload);
      if (message.lease_ms <= 0 || message.lease_ms > kMaxLeaseMs) refuse_payload();
      is_welcome_ = true;
      return lease_.start(std::chrono::milliseconds(message.lease_ms));
    }
    case MessageKind::kRefused:
      refusal_ = decode_payload<Refused>(frame.payload).why;
      return;
    case MessageKind::kLeftOut:
      return tell(
          "hgtrain: this node is left out for the rest of the job: {}; it ends with the job\n",
          decode_payload<LeftOut>(frame.payload).why);
    case MessageKind::kJobEnded:
      exit_code_ = decode_payload<JobEnded>(frame.payload).exit_code;
      return link_.send(JobEnded{*exit_code_});
    case MessageKind::kBeat:
      return lease_.hear(decode_payload<Beat>(frame.payload));
    case MessageKind::kCredit:
      window_.credit(decode_payload<Credit>(frame.payload).bytes);
      if (ranks_) ranks_->resume_output();
      return;
    default:
      throw Error(ErrorKind::kPeer, "the launcher sent a message that only agents send");
  }
}

void Agent::reserve_port(const ReservePort& message) {
  try {
    port_.reset();
    port_.emplace(message.wanted);
    link_.send(PortReserved{message.attempt, port_->number(), address_of(message.interface)});
  } catch (const Error& e) {
    link_.send(not_spawned(message.attempt, e));
  }
}

void Agent::receive_files(const PushFiles& order) {
  if (files_) refuse_payload();
  files_.emplace(context_.io, link_, order);
  files_->start();
}

FileReceiver& Agent::files() {
  if (!files_) refuse_payload();
  return *files_;
}

/// At the address at which the workers of others would look for this host.
void Agent::listen_for_link(const ListenForLink& message) {
  LinkListening answer;
  try {
    answer.address = !message.address.empty()     ? address_towards(message.address)
                     : !message.interface.empty() ? address_of(message.interface)
                                                  : ssh_address();
    link_listener_ = std::make_unique<LinkListener>(answer.address, message.token);
    answer.port = link_listener_->port();
  } catch (const Error& e) {
    answer.why = e.message();
  }
  link_.send(answer);
}

/// Blocks the loop for less than a lease, unless the network drops nearly everything; no ranks run
/// meanwhile.
void Agent::measure(const MeasureLink& message) {
  LinkMeasured answer;
  try {
    const LinkFigures figures = measure_link(message.address, message.port, message.token);
    answer.round_trip_ns = figures.round_trip_ns;
    answer.bytes_per_second = figures.bytes_per_second;
  } catch (const Error& e) {
    answer.why = e.message();
  }
  link_.send(answer);
}

void Agent::spawn(const Spawn& order) {
  if (lease_.has_passed()) return;  // which ends the stream next
  if (ranks_) {  // the loop may still refer to it: it is destroyed after what is queued there
    ranks_->close();
    asio::post(context_.io, [last = std::move(ranks_)] {});
  }
  LocalRanks::Context context{
      context_.io,
      link_,
      window_,
      logs_,
      context_.group_fd,
      context_.others,
      lease_,
      context_.is_own_process,
      port_ ? port_->number() : 0,
      [this, attempt = order.attempt](const Error& why) { link_.send(not_spawned(attempt, why)); },
      [this] {
        if (why_ended_) end_now();
      },
      [this] { give_up(); }};
  ranks_ = std::make_unique<LocalRanks>(std::move(context), order);
  ranks_->start();
}

/// The coordinator is silent, or has given this agent up, because this process stood still.
void Agent::give_up() {
  if (why_ended_) return;
  link_.close();
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  // The guards of ranks count from its last beat, so they may be a second earlier.
  const bool stood_still = lease_.standstill() >= lease_.length() * 4 / 5;
  if (!stood_still)
    return on_stream_ended(
        fmt::format("nothing has come from it for {:g} s", seconds(lease_.length())));
  // ssh brings this to a launcher that has not given this agent up yet.
  if (context_.is_own_process)
    tell("hgtrain's agent was stopped for {:.0f} s\n", seconds(lease_.standstill()));
  on_stream_ended(
      fmt::format("this process was stopped for {:.0f} s", seconds(lease_.standstill())));
}

/// Without a coordinator nobody can say that the job is wanted: there is no grace.
void Agent::on_stream_ended(const std::string& why) {
  log_info("the coordinator is gone: {}", why);
  why_ended_ = why;
  lease_.stop();
  if (ranks_) ranks_->stop_starting();
  if (!ranks_ || ranks_->are_gone()) return end_now();
  ranks_->signal({ranks_->attempt(), kAllRanks, SIGKILL});
  end_timer_.expires_after(kGuardLimit);
  end_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    ranks_->kill_guards();
    end_timer_.expires_after(kGuardLimit);
    end_timer_.async_wait([this](const std::error_code& cancelled) {
      if (!cancelled) end_now();
    });
  });
}

void Agent::end_now() {
  end_timer_.cancel();
  asio::post(context_.io, [this] { context_.ended(*why_ended_); });
}

}  // namespace hgt
