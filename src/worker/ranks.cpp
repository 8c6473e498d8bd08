#include "ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/comm/between_graphs.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/config/config.h"
#include "hgtrain/machine/network.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/train/memory_fit.h"
#include "hgtrain/train/use_attention.h"
#include "hgtrain/wire/messages.h"

#include "stacks.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};

GroupOptions group_options(const Config& job, const Environment& environment) {
  const bool has_levels = environment.num_hosts > 1 && job.distributed.backend != "gloo";
  return {.rank = environment.rank,
          .size = environment.world_size,
          .timeout = std::chrono::milliseconds(job.distributed.timeout_ms()),
          .waits_for_network = environment.restarts > 0 && !environment.has_joined_hosts,
          .host = has_levels ? std::to_string(environment.host) : "",
          .rounds_once = job.gradient_sum_dtype() != DType::kF32};
}

/// This rank's own numeric address in the network that the ranks use. Error(kDevice) if other hosts
/// cannot reach it: on many machines, /etc/hosts maps the machine's name to 127.0.1.1. If the
/// loopback itself is named, all "hosts" are on one machine.
std::string own_address(const Environment& environment) {
  const std::string address = address_towards(environment.network_host);
  const bool may_be_loopback = environment.num_hosts == 1 || is_loopback(environment.network_host);
  if (may_be_loopback || !is_loopback(address)) return address;
  throw Error(ErrorKind::kDevice,
              fmt::format("on host {}, {} is its loopback, where other hosts cannot reach it",
                          host_name(), environment.network_host),
              fmt::format("give the address in numbers, or name an interface of all hosts with "
                          "distributed.interface; {}",
                          list_interfaces()));
}

/// In a restart, the network may still be cut: waits until this rank has an address in it.
void wait_for_network(ControlChannel& channel, const Environment& environment,
                      const GroupOptions& group) {
  const std::int64_t until_ns = awake_ns() + std::chrono::nanoseconds(group.timeout).count();
  for (bool is_told = false; group.waits_for_network; std::this_thread::sleep_for(kLookAgain)) {
    if (group.aborted && *group.aborted) throw Error(ErrorKind::kPeer, "the job ends");
    try {
      own_address(environment);
      return;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kPeer || awake_ns() >= until_ns) throw;
      if (!std::exchange(is_told, true))
        channel.send(
            "notice",
            {{"text",
              fmt::format("rank {}: {}; it goes on trying for up to {} s", environment.rank,
                          e.message(),
                          std::chrono::ceil<std::chrono::seconds>(group.timeout).count())}});
    }
  }
}

/// The channel for a thread that saves; its progress is not part of the heartbeats.
class SideChannel final : public ControlChannel {
 public:
  explicit SideChannel(ControlChannel& main) : main_(main) {}
  Progress& progress() override { return progress_; }
  void set(const std::string& key, const std::string& value) override { main_.set(key, value); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return main_.get(key, timeout);
  }
  void send(const std::string& kind, const nlohmann::json& body) override {
    main_.send(kind, body);
  }
  void flush() override { main_.flush(); }

 private:
  ControlChannel& main_;
  Progress progress_;
};

bool uses_nccl(const Config& job, const CudaQueue* queue) {
  return queue != nullptr && job.distributed.backend != "gloo";
}

Connection connect(ControlChannel& channel, const Config& job, const Environment& environment,
                   const CudaQueue* queue, const GroupOptions& group) {
  const std::string& backend = job.distributed.backend;
  if (uses_nccl(job, queue)) return {connect_nccl(channel, *queue, group), "NCCL"};
  if (queue != nullptr)
    return {connect_tcp(channel, group, own_address(environment), queue),
            "TCP, through the host's memory"};
  if (backend == "nccl")
    throw Error(ErrorKind::kConfig, "distributed.backend = \"nccl\" needs GPUs",
                "leave it at auto on the CPU");
  if (backend == "auto")
    if (auto shared = connect_shared_memory(channel, group))
      return {std::move(shared), "shared memory"};
  return {connect_tcp(channel, group, own_address(environment)), "TCP"};
}

/// The smallest of the ranks' numbers.
std::int64_t smallest_of_ranks(std::int64_t mine, const std::string& key,
                               const Environment& environment, Store& store,
                               std::chrono::milliseconds timeout) {
  if (environment.world_size == 1) return mine;
  const auto key_of = [&](int rank) { return fmt::format("{}/of {}", key, rank); };
  if (environment.rank > 0) {
    store.set(key_of(environment.rank), fmt::to_string(mine));
    return std::stoll(store.get(key + "/least", timeout));
  }
  std::int64_t smallest = mine;
  for (int rank = 1; rank < environment.world_size; ++rank)
    smallest = std::min<std::int64_t>(smallest, std::stoll(store.get(key_of(rank), timeout)));
  store.set(key + "/least", fmt::to_string(smallest));
  return smallest;
}

}  // namespace

std::unique_ptr<CudaQueue> open_device(const Config& config, const Environment& environment) {
  if (config.hardware.device != "cuda") return nullptr;
  // Each queue gets a hardware queue of its own: a receive that waits for a peer delays no other.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const int count = CudaModule::get().probe().device_count;
  if (environment.local_rank >= count && !config.hardware.oversubscribe)
    throw Error(
        ErrorKind::kDevice,
        fmt::format("worker {} of this machine has no GPU of its own: there {}",
                    environment.local_rank, count == 1 ? "is 1" : fmt::format("are {}", count)),
        "start fewer, or let them share: --hardware.oversubscribe true");
  auto queue = std::make_unique<CudaQueue>(Device::cuda(environment.local_rank % count));
  if (!config.times_products()) set_product_timing(*queue, ProductTiming::kNone);
  return queue;
}

void plan_device(Config& config, const Environment& environment, ControlChannel& channel,
                 const CudaQueue& queue) {
  config.hardware.gpu_bytes =
      smallest_of_ranks(plannable_bytes(config, queue), "memory of GPUs", environment, channel,
                        std::chrono::milliseconds(config.distributed.timeout_ms()));
  const std::string attention = use_attention(config, queue);
  log_info("{}", attention);
  if (environment.local_rank == 0 && attention.find("(no cuDNN") != std::string::npos)
    channel.send("notice", {{"text", environment.num_hosts == 1
                                         ? attention
                                         : fmt::format("on {}: {}", host_name(), attention)}});
}

Connection connect_ranks(ControlChannel& channel, const Config& job, const Environment& environment,
                         const CudaQueue* queue, const std::atomic<bool>* aborted) {
  if (environment.world_size == 1) return {make_self_communicator(), ""};
  GroupOptions group = group_options(job, environment);
  group.aborted = aborted;
  if (environment.num_hosts > 1) wait_for_network(channel, environment, group);
  if (uses_nccl(job, queue)) {
    // NCCL's own choice of a network may be one that the hosts do not share.
    if (const std::string interface =
            environment.num_hosts > 1 ? interface_with(own_address(environment)) : "";
        !interface.empty())
      ::setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 0);
    // NCCL accepts two ranks on a GPU only if they seem to be on two machines.
    if (job.hardware.oversubscribe)
      ::setenv("NCCL_HOSTID", fmt::to_string(environment.rank).c_str(), 0);
    // Sums in the switch (NVLS) are not the same from run to run: NVIDIA/nccl#1497.
    ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  }
  const Layout layout = make_layout(job.parallelism, environment.world_size);
  if (layout.group_size() < layout.world_size())
    group.rounds_once = false;  // such a group sums no gradients
  return connect(channel, job, environment, queue, group);
}

std::unique_ptr<ConnectedGroups> connect_groups(ControlChannel& channel, const Config& job,
                                                const Environment& environment,
                                                const CudaQueue* queue, Communicator& world,
                                                const std::atomic<bool>* aborted,
                                                const std::string& name) {
  GroupOptions options = group_options(job, environment);
  options.aborted = aborted;
  options.group = name;
  return std::make_unique<ConnectedGroups>(
      make_layout(job.parallelism, environment.world_size), job.model.tie_word_embeddings, world,
      options, [&](const GroupOptions& group) {
        auto communicator = uses_nccl(job, queue) ? split_nccl(world, group)
                            : group.size == 0
                                ? nullptr
                                : connect(channel, job, environment, queue, group).communicator;
        return queue && communicator ? run_between_graphs(std::move(communicator), *queue)
                                     : std::move(communicator);
      });
}

SaveGroup connect_save_group(ControlChannel& channel, const Config& job,
                             const Environment& environment, const std::atomic<bool>* aborted) {
  SaveGroup out;
  if (environment.world_size == 1 || !job.checkpoint.async_save) return out;
  GroupOptions world = group_options(job, environment);
  world.aborted = aborted;
  out.channel = std::make_unique<SideChannel>(channel);
  const auto connect = [&](GroupOptions group, const std::string& name) {
    group.group = name;
    group.thread_name = "communication for saves";
    std::unique_ptr<Communicator> shared;
    if (job.distributed.backend != "gloo") shared = connect_shared_memory(*out.channel, group);
    return shared ? std::move(shared) : connect_tcp(*out.channel, group, own_address(environment));
  };
  out.communicator = connect(world, "saves");
  const Layout layout = make_layout(job.parallelism, environment.world_size);
  for (const GroupOfRanks& group : groups_of(layout, environment.rank, false))
    if (group.place == &Groups::tensor)
      out.tensor = connect(group.options(world), "saves of " + group.name);
  out.groups.emplace(*out.communicator).tensor = out.tensor.get();
  return out;
}

void SaveGroup::abort() noexcept {
  if (communicator) communicator->abort();
  if (tensor) tensor->abort();
}

std::unique_ptr<OwnerFiles> connect_files(ControlChannel& channel, const Config& job,
                                          const Environment& environment, Communicator& world,
                                          const OwnerFiles::Folders& folders,
                                          const std::atomic<bool>* aborted) {
  GroupOptions options = group_options(job, environment);
  options.aborted = aborted;
  auto files =
      std::make_unique<OwnerFiles>(channel, world, options, own_address(environment), folders);
  const std::size_t without = files->ranks_without().size();
  if (environment.rank == 0 && without > 0)
    channel.send(
        "notice",
        {{"text", fmt::format("{} not see the run folder, which is on {}: they load and save "
                              "through rank 0",
                              without == 1 ? "1 rank does" : fmt::format("{} ranks do", without),
                              host_name())}});
  return files;
}

std::string slower_network(const std::vector<std::string>& transports, const Network& network) {
  if (std::ranges::find(transports, "NET/Socket") == transports.end()) return "";
  const auto active = std::ranges::find(network.infiniband, "ACTIVE", &InfinibandPort::state);
  if (active == network.infiniband.end()) return "";
  return fmt::format(
      "NCCL took NET/Socket, though port {} of {} ({}, {}) is active: is libibverbs installed, and "
      "NCCL_IB_DISABLE not set? NCCL_DEBUG=INFO says why",
      active->port, active->device, active->link_layer, active->rate);
}

void report_transports(ControlChannel& channel, const Environment& environment,
                       const NcclLog& log) {
  const std::vector<std::string> transports = nccl_transports(log.text());
  if (transports.empty()) return;
  log_info("NCCL transports: {}", fmt::join(transports, ", "));
  const std::string warning = slower_network(transports, look_at_network());
  if (!warning.empty()) log_warning("{}", warning);
  if (environment.rank > 0) return;
  if (environment.num_hosts > 1)
    channel.send("notice", {{"text", fmt::format("NCCL connects rank 0 with the others over {}",
                                                 fmt::join(transports, ", "))}});
  if (!warning.empty()) channel.send("notice", {{"text", warning}});
}

void show_stacks() {
  std::fputs(stacks_of_threads().c_str(), stderr);
}

int run_rank(const std::function<void(ControlChannel&)>& body) {
  const LogSession log(fmt::format("rank {}", read_environment().rank),
                       log_level_from_environment(LogLevel::kWarning), /*asynchronous=*/false);
  std::atomic<bool> failed = false;  // the exit status is then that of the error
  const auto leave = [&] {
    if (!failed) std::_Exit(static_cast<int>(ErrorKind::kPeer));
  };
  const auto channel = ControlChannel::open({
      .stop = [] { std::_Exit(kExitStoppedEarly); },
      .checkpoint = [] {},
      .abort = [&](const std::string&) { leave(); },
      .lost = [&] { leave(); },
      .show_stacks = show_stacks,
  });
  try {
    body(*channel);
    return 0;
  } catch (const std::exception& e) {
    const Error error = error_from(e);
    std::fputs(error.render("hgtrain-worker").c_str(), stderr);
    failed = true;
    channel->send("failed", failed_body(error));
    channel->flush();
    return error.exit_code();
  }
}

}  // namespace hgt
