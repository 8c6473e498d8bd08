#include "nccl_connection.h"

#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "aborted.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kLeaveTimeout{5000};
constexpr std::chrono::microseconds kPollInterval{20};
constexpr int kEagerPolls = 200;  ///< NCCL is usually ready at once

CudaCommId exchange_id(ControlChannel& channel, const CudaCommTable& nccl,
                       const GroupOptions& options) {
  const std::string key = fmt::format("comm/{}/nccl_id", options.group);
  CudaCommId id;
  if (options.rank == 0) {
    check(nccl.make_id(&id));
    channel.set(key, std::string(id.bytes, sizeof id.bytes));
    return id;
  }
  const std::string value = channel.get(key, options.timeout);
  if (value.size() != sizeof id.bytes)
    throw Error(ErrorKind::kPeer, fmt::format("rank 0's id of the group has {} bytes, expected {}",
                                              value.size(), sizeof id.bytes));
  std::memcpy(id.bytes, value.data(), sizeof id.bytes);
  return id;
}

}  // namespace

CudaCommState* start_connecting(ControlChannel& channel, const CudaQueue& compute,
                                const GroupOptions& options) {
  const CudaCommTable& nccl = compute.module().comm();
  const CudaCommId id = exchange_id(channel, nccl, options);
  CudaCommState* comm = nullptr;
  check(nccl.start_connect(&id, options.rank, options.size, compute.device().index, &comm));
  return comm;
}

CudaCommState* NcclConnection::split(const GroupOptions& group) {
  check();
  const int color = group.size == 0 ? -1 : group.members.front();
  CudaCommState* part = nullptr;
  try {
    enter([&](CudaCommState* comm) {
      return nccl_.start_split(comm, color, group.rank, group.size, &part);
    });
  } catch (Error& error) {
    fail(error.in("splitting over NCCL"));
    abort();
    if (part != nullptr) (void)nccl_.abort(part);
    throw;
  }
  return part;
}

void NcclConnection::call(const Call& make) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) throw Error(failure_ ? *failure_ : aborted_error());
  hgt::check(make(comm_));
}

void NcclConnection::enter(const Call& make) {
  call(make);
  wait_until_ready(deadline());
}

bool NcclConnection::ready() {
  bool ready = false;
  call([&](CudaCommState* comm) { return nccl_.poll(comm, &ready); });
  return ready;
}

void NcclConnection::wait_until_ready(Clock::time_point deadline) {
  wait_until([&] { return ready(); }, deadline);
}

void NcclConnection::wait_until(const std::function<bool()>& condition,
                                Clock::time_point deadline) const {
  for (int polls = 0; !condition(); ++polls) {
    if (options_.aborted != nullptr && *options_.aborted) throw aborted_error();
    if (Clock::now() >= deadline) throw timeout_error();
    if (polls < kEagerPolls)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPollInterval);
  }
}

Error NcclConnection::timeout_error() const {
  return Error(ErrorKind::kPeer, fmt::format("the other ranks did not arrive within {:g} s",
                                             static_cast<double>(options_.timeout.count()) * 1e-3));
}

void NcclConnection::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

bool NcclConnection::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void NcclConnection::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
}

/// NCCL runs without the mutex, so that others get the failure.
void NcclConnection::abort() noexcept {
  CudaCommState* comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) (void)nccl_.abort(comm);
}

void NcclConnection::leave() noexcept {
  try {
    call([&](CudaCommState* comm) { return nccl_.start_leave(comm); });
    wait_until_ready(Clock::now() + kLeaveTimeout);
    (void)nccl_.destroy(std::exchange(comm_, nullptr));
  } catch (const std::exception&) {
    abort();
  }
}

}  // namespace hgt
