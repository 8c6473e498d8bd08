#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/messages.h"

namespace hgt {

// What an agent and the coordinator tell each other. Each struct is the payload of one kind of
// frame (payload.h). `attempt` is the number of the attempt that a message belongs to; messages of
// another attempt are ignored.

/// As the rank of RankCommand or SignalRanks: all ranks that the agent has.
inline constexpr std::int32_t kAllRanks = -1;

// ---- both ways ----

/// Once a second between two machines: says that the sender is there, and what its clock shows.
struct Beat {
  static constexpr MessageKind kKind = MessageKind::kBeat;
  std::int64_t at_ns = 0;       ///< by the sender's clock
  std::int64_t answers_ns = 0;  ///< at_ns of the last beat that the sender received, 0 = none yet
  std::int64_t held_ns = 0;     ///< how long ago it received that one
  static auto fields(auto& m) { return std::tie(m.at_ns, m.answers_ns, m.held_ns); }
};

/// The job has ended. The agent sends the message back to acknowledge it.
struct JobEnded {
  static constexpr MessageKind kKind = MessageKind::kJobEnded;
  std::int32_t exit_code = 0;
  static auto fields(auto& m) { return std::tie(m.exit_code); }
};

// ---- agent to coordinator ----

inline constexpr std::uint32_t kAgentVersion = 14;

/// The first message of an agent that has dialled the coordinator: who it is.
struct Join {
  static constexpr MessageKind kKind = MessageKind::kJoin;
  std::uint32_t version = kAgentVersion;
  std::int32_t node = 0;  ///< its number, or kAnyNode
  std::string id;         ///< of the process, random
  std::int32_t num_nodes = 0;
  std::int32_t workers = 0;  ///< JobHost::workers
  std::string host;          ///< its name
  std::string machine;       ///< equal for nodes that share a machine; "" = none do
  std::map<std::string, std::string> config;    ///< of its Rendezvous
  std::map<std::string, std::string> settings;  ///< the same
  static auto fields(auto& m) {
    return std::tie(m.version, m.node, m.id, m.num_nodes, m.workers, m.host, m.machine, m.config,
                    m.settings);
  }
};

/// The first message of an agent on another host; the second if it has dialled.
struct AgentHello {
  static constexpr MessageKind kKind = MessageKind::kAgentHello;
  std::uint32_t version = kAgentVersion;
  std::string address;    ///< the address by which ssh reached this host, "" = unknown
  std::int32_t gpus = 0;  ///< how many GPUs a program sees
  static auto fields(auto& m) { return std::tie(m.version, m.address, m.gpus); }
};

/// The answer to ReservePort if the port was free; otherwise the answer is NotSpawned.
struct PortReserved {
  static constexpr MessageKind kKind = MessageKind::kPortReserved;
  std::uint32_t attempt = 0;
  std::int32_t port = 0;
  std::string address = {};  ///< of ReservePort::interface
  static auto fields(auto& m) { return std::tie(m.attempt, m.port, m.address); }
};

/// The answer to ListenForLink: the address and port, or why not.
struct LinkListening {
  static constexpr MessageKind kKind = MessageKind::kLinkListening;
  std::string address;
  std::int32_t port = 0;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.address, m.port, m.why); }
};

/// The answer to MeasureLink: LinkFigures, or why not.
struct LinkMeasured {
  static constexpr MessageKind kKind = MessageKind::kLinkMeasured;
  std::int64_t round_trip_ns = 0;
  std::int64_t bytes_per_second = 0;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.round_trip_ns, m.bytes_per_second, m.why); }
};

/// Asks for a part of a file of PushFiles, by its number there. The answer is a FilePart.
struct PullPart {
  static constexpr MessageKind kKind = MessageKind::kPullPart;
  std::int32_t file = 0;
  std::int64_t offset = 0;
  std::int32_t bytes = 0;
  static auto fields(auto& m) { return std::tie(m.file, m.offset, m.bytes); }
};

/// Asks for the FileHash of such a file.
struct PullHash {
  static constexpr MessageKind kKind = MessageKind::kPullHash;
  std::int32_t file = 0;
  static auto fields(auto& m) { return std::tie(m.file); }
};

/// The files of PushFiles are on this host, or why they are not.
struct FilesReady {
  static constexpr MessageKind kKind = MessageKind::kFilesReady;
  std::string why;  ///< "" = they are
  static auto fields(auto& m) { return std::tie(m.why); }
};

struct Spawned {
  static constexpr MessageKind kKind = MessageKind::kSpawned;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank, m.pid); }
};

/// The attempt cannot start on this host, and nothing of it runs there.
struct NotSpawned {
  static constexpr MessageKind kKind = MessageKind::kNotSpawned;
  std::uint32_t attempt = 0;
  std::int32_t error_kind = 0;
  std::string message;
  std::string hint;
  std::vector<std::string> context;
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.error_kind, m.message, m.hint, m.context);
  }
};
NotSpawned not_spawned(std::uint32_t attempt, const Error& error);
/// The reverse of not_spawned(). Error(kPeer) if the error's kind is unknown.
Error error_in(const NotSpawned& message);

struct RankHeartbeat {
  static constexpr MessageKind kKind = MessageKind::kRankHeartbeat;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  Heartbeat beat;
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.rank, m.beat.step, m.beat.collective, m.beat.phase, m.beat.work,
                    m.beat.action, m.beat.waits_in, m.beat.waits_for, m.beat.begun);
  }
};

/// An event that a worker sent on its control channel.
struct RankEvent {
  static constexpr MessageKind kKind = MessageKind::kRankEvent;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::int64_t at_ns = 0;  ///< by the agent's clock
  bool signalled = false;  ///< a signal of the launcher's came before
  std::string name;
  std::string body;  ///< an object, as JSON
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.rank, m.at_ns, m.signalled, m.name, m.body);
  }
};

/// A worker's control channel was closed because a message on it did not belong to this job.
struct ChannelBroken {
  static constexpr MessageKind kKind = MessageKind::kChannelBroken;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank, m.why); }
};

/// A signal has stopped a worker's process for 2 s, or another one has continued it.
struct RankStopped {
  static constexpr MessageKind kKind = MessageKind::kRankStopped;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  bool stopped = false;
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank, m.stopped); }
};

/// A worker's program has ended.
struct Ended {
  static constexpr MessageKind kKind = MessageKind::kEnded;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::int32_t wait_status = 0;
  std::int64_t max_rss_kib = 0;
  std::int64_t at_ns = 0;  ///< by the agent's clock
  bool lost_guard = false;
  bool signalled = false;  ///< a signal of the launcher's came before
  bool out_of_memory = false;
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.rank, m.wait_status, m.max_rss_kib, m.at_ns, m.lost_guard,
                    m.signalled, m.out_of_memory);
  }
};

/// Nothing is left of a worker, and all its output was sent before this.
struct Gone {
  static constexpr MessageKind kKind = MessageKind::kGone;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::vector<std::string> last_lines;
  std::string error_message;  ///< of its error file, "" = none
  std::string port_user;      ///< a process that listens on MASTER_PORT after all ranks of the host
                              ///< ended; "" = none
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.rank, m.last_lines, m.error_message, m.port_user);
  }
};

/// What a worker printed. It counts against the agent's window until it is credited.
struct Output {
  static constexpr MessageKind kKind = MessageKind::kOutput;
  std::int32_t rank = 0;
  std::uint8_t stream = 0;  ///< OutputSink::Stream
  std::string text = {};
  bool is_last = false;  ///< the rank prints nothing more
  static auto fields(auto& m) { return std::tie(m.rank, m.stream, m.text, m.is_last); }
};

/// A line for the user.
struct Notice {
  static constexpr MessageKind kKind = MessageKind::kNotice;
  std::string text;
  static auto fields(auto& m) { return std::tie(m.text); }
};

struct AgentStoreSet {
  static constexpr MessageKind kKind = MessageKind::kAgentStoreSet;
  std::uint32_t attempt = 0;
  std::string key;
  std::string value;
  static auto fields(auto& m) { return std::tie(m.attempt, m.key, m.value); }
};

/// The answer, sent once the key is there, is an AgentStoreValue.
struct AgentStoreGet {
  static constexpr MessageKind kKind = MessageKind::kAgentStoreGet;
  std::uint32_t attempt = 0;
  std::string key;
  static auto fields(auto& m) { return std::tie(m.attempt, m.key); }
};

/// A signal came to the agent's process.
struct SignalReceived {
  static constexpr MessageKind kKind = MessageKind::kSignalReceived;
  std::int32_t signal = 0;
  static auto fields(auto& m) { return std::tie(m.signal); }
};

// ---- coordinator to agent ----

/// The answer to a Join that does not fit the job. Then the stream ends.
struct Refused {
  static constexpr MessageKind kKind = MessageKind::kRefused;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.why); }
};

/// The host runs no ranks of later attempts. A node that has dialled stays until the job ends: if
/// it ended with an error, a scheduler might end the job.
struct LeftOut {
  static constexpr MessageKind kKind = MessageKind::kLeftOut;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.why); }
};

/// The first message to an agent on another host.
struct Welcome {
  static constexpr MessageKind kKind = MessageKind::kWelcome;
  /// Either side counts the other as lost after this time without a message.
  std::int64_t lease_ms = 0;
  static auto fields(auto& m) { return std::tie(m.lease_ms); }
};

/// The answer is a HostFacts. The agent enters `work_folder`.
struct Inspect {
  static constexpr MessageKind kKind = MessageKind::kInspect;
  std::string folder;   ///< where logs will lie, "" = nowhere
  std::string address;  ///< JobHost::address and interface
  std::string interface;
  std::string program;                   ///< program_of_environment() of what will be started
  std::string work_folder;               ///< in which ranks will work, "" = where the agent does
  std::string command;                   ///< what they will start, "" = it is there
  std::string path;                      ///< search_path() for it
  std::string script;                    ///< JobSpec::script
  std::vector<std::string> token_files;  ///< JobSpec::token_files
  std::string run_dir;                   ///< as the user calls it
  std::string shared_file;               ///< in it, or "": a host without it cannot run rank 0
  bool with_libraries = false;
  bool with_doctor = false;
  static auto fields(auto& m) {
    return std::tie(m.folder, m.address, m.interface, m.program, m.work_folder, m.command, m.path,
                    m.script, m.token_files, m.run_dir, m.shared_file, m.with_libraries,
                    m.with_doctor);
  }
};

/// Files that this host must have before Spawn (FileReceiver). Sent once.
struct PushFiles {
  static constexpr MessageKind kKind = MessageKind::kPushFiles;
  std::string host;    ///< what the user calls this host
  std::string folder;  ///< the folder for relative paths; "" = the agent's working folder
  std::vector<std::string> files;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> times_ns;  ///< of their last changes, in ns since 1970
  std::int32_t for_all = 0;  ///< how many, from the first; the rest is for hosts that see `mark`
  std::string mark;
  static auto fields(auto& m) {
    return std::tie(m.host, m.folder, m.files, m.sizes, m.times_ns, m.for_all, m.mark);
  }
};

struct FilePart {
  static constexpr MessageKind kKind = MessageKind::kFilePart;
  std::int32_t file = 0;
  std::int64_t offset = 0;
  std::string bytes;
  static auto fields(auto& m) { return std::tie(m.file, m.offset, m.bytes); }
};

struct FileHash {
  static constexpr MessageKind kKind = MessageKind::kFileHash;
  std::int32_t file = 0;
  std::uint64_t hash = 0;  ///< xxh3
  static auto fields(auto& m) { return std::tie(m.file, m.hash); }
};

/// Tells the agent that another one will measure the link to it, and will show the token.
struct ListenForLink {
  static constexpr MessageKind kKind = MessageKind::kListenForLink;
  std::string address;  ///< JobHost::address and interface
  std::string interface;
  std::string token;
  static auto fields(auto& m) { return std::tie(m.address, m.interface, m.token); }
};

/// Measure the link to an agent that listens.
struct MeasureLink {
  static constexpr MessageKind kKind = MessageKind::kMeasureLink;
  std::string address;
  std::int32_t port = 0;
  std::string token;
  static auto fields(auto& m) { return std::tie(m.address, m.port, m.token); }
};

/// Asks the host of rank 0 for a port, before Spawn.
struct ReservePort {
  static constexpr MessageKind kKind = MessageKind::kReservePort;
  std::uint32_t attempt = 0;
  std::int32_t wanted = 0;     ///< 0 = any free one
  std::string interface = {};  ///< the interface whose address to report, "" = none
  static auto fields(auto& m) { return std::tie(m.attempt, m.wanted, m.interface); }
};

/// Ends what the agent still has of the previous attempt, and starts its ranks of this one.
struct Spawn {
  static constexpr MessageKind kKind = MessageKind::kSpawn;
  std::uint32_t attempt = 0;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;        ///< JobSpec::env
  std::string folder;                            ///< working folder of the ranks; "" = the agent's
  std::map<std::string, std::string> inherited;  ///< for the agent's own environment
  std::string run_id;
  std::string run_dir;
  std::string log_dir;
  std::int32_t world_size = 1;
  std::int32_t first_rank = 0;
  std::int32_t num_ranks = 1;
  std::int32_t first_local_rank = 0;
  std::int32_t local_size = 1;  ///< ranks of all agents on the machine
  std::int32_t host = 0;
  std::int32_t num_hosts = 1;
  std::int32_t max_restarts = 0;
  std::string address;  ///< JobHost::address and interface
  std::string interface;
  std::string master_addr = "127.0.0.1";
  std::int32_t master_port = 0;
  bool own_workers = false;
  std::string shown_stdout = "none";  ///< RankSet::text(): the ranks whose stdout is shown
  std::string shown_stderr = "none";
  static auto fields(auto& m) {
    return std::tie(m.attempt, m.argv, m.env, m.folder, m.inherited, m.run_id, m.run_dir, m.log_dir,
                    m.world_size, m.first_rank, m.num_ranks, m.first_local_rank, m.local_size,
                    m.host, m.num_hosts, m.max_restarts, m.address, m.interface, m.master_addr,
                    m.master_port, m.own_workers, m.shown_stdout, m.shown_stderr);
  }
};

/// A frame for a worker's control channel.
struct RankCommand {
  static constexpr MessageKind kKind = MessageKind::kRankCommand;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::string frame;
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank, m.frame); }
};

struct SignalRanks {
  static constexpr MessageKind kKind = MessageKind::kSignalRanks;
  std::uint32_t attempt = 0;
  std::int32_t rank = kAllRanks;
  std::int32_t signal = 0;
  bool excuses = true;  ///< the rank is not blamed for ending after this
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank, m.signal, m.excuses); }
};

struct KillGuards {
  static constexpr MessageKind kKind = MessageKind::kKillGuards;
  std::uint32_t attempt = 0;
  static auto fields(auto& m) { return std::tie(m.attempt); }
};

/// Closes a worker's control channel.
struct CloseChannel {
  static constexpr MessageKind kKind = MessageKind::kCloseChannel;
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  static auto fields(auto& m) { return std::tie(m.attempt, m.rank); }
};

/// How many bytes of Output the console has taken.
struct Credit {
  static constexpr MessageKind kKind = MessageKind::kCredit;
  std::uint32_t bytes = 0;
  static auto fields(auto& m) { return std::tie(m.bytes); }
};

struct AgentStoreValue {
  static constexpr MessageKind kKind = MessageKind::kAgentStoreValue;
  std::uint32_t attempt = 0;
  std::string key;
  std::string value;
  static auto fields(auto& m) { return std::tie(m.attempt, m.key, m.value); }
};

}  // namespace hgt
