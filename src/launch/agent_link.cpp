#include "agent_link.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kConsoleRetry{20};
constexpr std::uint32_t kCreditBytes = 64 << 10;  // less is not worth a message

}  // namespace

AgentLink::AgentLink(asio::io_context& io, std::string host, OwnedFd in, OwnedFd out,
                     OutputSink& console, Events events)
    : host_(std::move(host)),
      console_(console),
      events_(std::move(events)),
      credit_timer_(io),
      link_(io, std::move(in), std::move(out),
            {[this](const Frame& frame) { on_frame(frame); },
             [this](const std::string& why) {
               lease_.stop();
               lost_ns_ = now_ns();
               events_.lost(*this, why);
             }}),
      lease_(io, link_, "host " + host_, Lease::Standstill::kExcused, [this] {
        link_.close();
        lost_ns_ = lease_.heard_ns();
        was_silent_ = true;
        events_.lost(*this, fmt::format("nothing has come from it for {:g} s",
                                        static_cast<double>(lease_.length().count()) * 1e-9));
      }) {}

void AgentLink::start_lease(std::chrono::milliseconds lease) {
  send(Welcome{lease.count()});
  lease_.start(lease);
}

void AgentLink::close() {
  lease_.stop();
  credit_timer_.cancel();
  link_.close();
}

void AgentLink::on_frame(const Frame& frame) {
  lease_.hear();
  switch (frame.kind) {
    case MessageKind::kBeat:
      return lease_.hear(decode_payload<Beat>(frame.payload));
    case MessageKind::kOutput:
      return show(decode_payload<Output>(frame.payload));
    case MessageKind::kNotice:
      return events_.notice(decode_payload<Notice>(frame.payload).text);
    default:
      return events_.frame(*this, frame);
  }
}

void AgentLink::show(const Output& output) {
  if (output.stream > OutputSink::kErr) refuse_payload();
  console_.write(output.rank, static_cast<OutputSink::Stream>(output.stream), output.text);
  if (output.is_last) console_.end(output.rank);
  const bool was_waiting = owed_bytes_ >= kCreditBytes;
  owed_bytes_ += static_cast<std::uint32_t>(output.text.size());
  if (!was_waiting && owed_bytes_ >= kCreditBytes) give_credit();
}

void AgentLink::give_credit() {
  if (!console_.is_full()) return link_.send(Credit{std::exchange(owed_bytes_, 0)});
  credit_timer_.expires_after(kConsoleRetry);
  credit_timer_.async_wait([this](const std::error_code& error) {
    if (!error) give_credit();
  });
}

}  // namespace hgt
