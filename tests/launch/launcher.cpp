// A launcher as small as can be: runs the job its arguments describe, so that tests can look at it,
// and kill it, from outside. Prints the verdict to stderr; with --verdict FILE also as JSON. usage:
// launcher [--workers N] [--hosts A,B | --hostfile TEXT] [--on_first_host] [--own] [--restarts N]
// [--grace MS]
// [--hang MS] [--lease MS] [--call_period MS] [--min_hosts N] [--elastic_timeout MS] [--logs DIR]
// [--token_file FILE] [--socket DIR]
// [--show RANKS] [--verdict FILE] -- PROGRAM ...
// With [--nodes N --node R --port P --secret TEXT [--join SECONDS] [--key K=V] [--setting K=V]] one
// of N nodes on this machine, of --workers each. With [--remotely HOST [--in FOLDER] [--program
// FILE]] the program alone, on that host.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/log.h"
#include "hgtrain/launch/agent_process.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/launch/remote_command.h"

int main(int argc, char** argv) try {
  if (argc == 2 && std::string(argv[1]) == "agent") {
    const hgt::LogSession log("agent", hgt::LogLevel::kWarning, /*asynchronous=*/false);
    return hgt::run_agent();
  }
  if (hgt::is_remote({argv + 1, argv + argc})) {
    std::vector<char*> words;
    for (const std::string& word : hgt::receive_command().words)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    return execv(words[0], words.data());
  }
  hgt::JobSpec spec;
  spec.shown_ranks = hgt::RankSet::all();
  std::optional<hgt::JobSocket> socket;
  std::string verdict_path;
  hgt::Rendezvous rendezvous{.address = "127.0.0.1"};
  int nodes = 0;
  hgt::RemoteCommand remote;
  remote.folder = "/";
  remote.environment["SENT"] = "variable";
  std::string remote_host;
  std::vector<std::string> command;
  int i = 1;
  for (; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--") break;
    if (flag == "--own")
      spec.own_workers = true;
    else if (flag == "--workers")
      spec.num_workers = std::stoi(argv[++i]);
    else if (flag == "--restarts")
      spec.max_restarts = std::stoi(argv[++i]);
    else if (flag == "--grace")
      spec.grace = std::chrono::milliseconds(std::stoi(argv[++i]));
    else if (flag == "--hang")
      spec.hang_limit = std::chrono::milliseconds(std::stoi(argv[++i]));
    else if (flag == "--lease")
      spec.host_lease = std::chrono::milliseconds(std::stoi(argv[++i]));
    else if (flag == "--call_period")
      spec.call_period = std::chrono::milliseconds(std::stoi(argv[++i]));
    else if (flag == "--min_hosts")
      spec.min_hosts = std::stoi(argv[++i]);
    else if (flag == "--elastic_timeout")
      spec.elastic_timeout = std::chrono::milliseconds(std::stoi(argv[++i]));
    else if (flag == "--logs")
      spec.log_dir = argv[++i];
    else if (flag == "--token_file")
      spec.token_files.push_back(argv[++i]);
    else if (flag == "--socket")
      spec.socket = &socket.emplace(argv[++i]);
    else if (flag == "--hosts")
      spec.hosts = hgt::parse_hosts(argv[++i]);
    else if (flag == "--hostfile")
      spec.hosts = hgt::parse_hostfile(argv[++i], "hosts");
    else if (flag == "--show")
      spec.shown_ranks = hgt::RankSet::parse(argv[++i]);
    else if (flag == "--nodes")
      nodes = std::stoi(argv[++i]);
    else if (flag == "--node")
      rendezvous.node = std::stoi(argv[++i]);
    else if (flag == "--port")
      rendezvous.port = std::stoi(argv[++i]);
    else if (flag == "--secret")
      rendezvous.secret = argv[++i];
    else if (flag == "--join")
      rendezvous.join_timeout = std::chrono::seconds(std::stoi(argv[++i]));
    else if (flag == "--key" || flag == "--setting") {
      const std::string text = argv[++i];
      const std::size_t equals = text.find('=');
      (flag == "--key" ? rendezvous.config : rendezvous.settings)[text.substr(0, equals)] =
          text.substr(equals + 1);
    } else if (flag == "--on_first_host")
      spec.is_on_first_host = true;
    else if (flag == "--remotely")
      remote_host = argv[++i];
    else if (flag == "--in")
      remote.folder = argv[++i];
    else if (flag == "--program")
      remote.program = argv[++i];
    else if (flag == "--verdict")
      verdict_path = argv[++i];
    else
      return 2;
  }
  for (++i; i < argc; ++i) command.emplace_back(argv[i]);
  if (!remote_host.empty()) {
    remote.words = command;
    return hgt::run_remotely(remote, {.name = remote_host}, [](const std::string&) {});
  }
  spec.argv = [&](int) { return command; };
  spec.on_event = [](int rank, std::string_view kind, const nlohmann::json& body) {
    if (rank >= 0 && kind == "notice")
      body.at("text").get<std::string>();  // as the real launcher would
    std::cerr << fmt::format("event {} {} {}\n", rank, kind, body.dump());
  };
  if (nodes > 0) {
    spec.hosts.assign(static_cast<std::size_t>(nodes), {.name = "?", .workers = spec.num_workers});
    rendezvous.rejoins = spec.min_hosts > 0;
    rendezvous.trains = spec.own_workers;
    spec.rendezvous = rendezvous;
    const hgt::LogSession log("node", hgt::LogLevel::kWarning, /*asynchronous=*/false);
    if (rendezvous.node != 0) return hgt::run_node(rendezvous, spec.hosts);
  }
  spec.on_end = [&](const hgt::Verdict& verdict) {
    std::cerr << verdict.render("launcher");
    if (!verdict_path.empty()) std::ofstream(verdict_path) << nlohmann::json(verdict).dump();
  };
  return hgt::run_job(spec).exit_code;
} catch (const hgt::Error& e) {
  std::fputs(e.render("launcher").c_str(), stderr);
  return e.exit_code();
}
