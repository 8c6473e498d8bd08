#include "hgtrain/launch/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/terminal.h"

namespace hgt {
namespace {

/// "  the other 3 ranks were stopped"; "" if there are no such ranks.
std::string others(const Verdict& v, int ranks, const char* was, const char* were) {
  if (ranks == 0) return "";
  const std::string count = ranks == 1 ? "rank" : fmt::format("{} ranks", ranks);
  const std::string who = ranks == v.world_size - 1 ? "the other " + count
                          : ranks == 1              ? "1 other rank"
                                                    : fmt::format("{} other ranks", ranks);
  return fmt::format("  {} {}\n", who, ranks == 1 ? was : were);
}

std::string last_words(const Verdict& v) {
  if (v.last_lines.empty()) {
    if (v.log_path.empty()) return "";
    return fmt::format("  {}its log: {}\n", v.message.empty() ? "it has printed nothing; " : "",
                       v.log_path);
  }
  std::string out = fmt::format("  the last lines of rank {}{}:\n", v.rank,
                                v.log_path.empty() ? "" : fmt::format(" (more in {})", v.log_path));
  for (const std::string& line : v.last_lines) out += "    | " + line + "\n";
  return out;
}

}  // namespace

std::string Verdict::culprit() const {
  return rank >= 0 ? fmt::format("rank {}", rank) : "host " + host;
}

std::string Verdict::render(const std::string& program) const {
  if (outcome == Outcome::kDone) return "";
  if (outcome == Outcome::kStopped) return printable(fmt::format("{}: {}\n", program, reason));
  std::string out = fmt::format("{}: error: ", program);
  const std::string who =
      rank < 0 ? fmt::format("{} {}", culprit(), reason)
               : fmt::format("rank {} of {} ({}{}pid {} on {}) {}{}", rank, world_size, place,
                             place.empty() ? "" : "; ", pid, host, reason,
                             step > 0 ? fmt::format(" after step {}", step) : "");
  if (message.empty()) {
    out += who + "\n";
  } else {
    out += message + "\n";
    for (const std::string& where : context) out += "  in " + where + "\n";
    out += "  " + who + "\n";
  }
  if (!lost_hosts.empty())
    out += fmt::format("  host{} {} {} lost, too\n", lost_hosts.size() == 1 ? "" : "s",
                       fmt::join(lost_hosts, ", "), lost_hosts.size() == 1 ? "was" : "were");
  if (restarts > 0)
    out += fmt::format("  it failed after {} restart{}\n", restarts, restarts == 1 ? "" : "s");
  if (rank >= 0) out += last_words(*this);
  if (!doubt.empty()) out += "  " + doubt + "\n";
  out += others(*this, failed_ranks, "ended with an error, too", "ended with errors, too");
  out += others(*this, stopped_ranks, "was stopped", "were stopped");
  if (!no_restart.empty()) out += "  no restart: " + no_restart + "\n";
  if (!hint.empty()) out += "  hint: " + hint + "\n";
  return printable(out);
}

void to_json(nlohmann::json& json, const Verdict& v) {
  const char* outcomes[] = {"done", "stopped", "failed"};
  json = {{"outcome", outcomes[static_cast<int>(v.outcome)]},
          {"exit_code", v.exit_code},
          {"world_size", v.world_size},
          {"restarts", v.restarts}};
  if (!v.reason.empty()) json["reason"] = v.reason;
  if (v.outcome != Verdict::Outcome::kFailed) return;
  json["first_failure"] = {{"host", v.host},
                           {"message", v.message},
                           {"hint", v.hint},
                           {"context", v.context},
                           {"log", v.log_path},
                           {"last_lines", v.last_lines},
                           {"stopped_ranks", v.stopped_ranks},
                           {"failed_ranks", v.failed_ranks}};
  if (v.rank >= 0) json["first_failure"].update({{"rank", v.rank}, {"pid", v.pid}});
  if (!v.lost_hosts.empty()) json["first_failure"]["lost_hosts"] = v.lost_hosts;
  if (!v.doubt.empty()) json["first_failure"]["doubt"] = v.doubt;
  if (!v.no_restart.empty()) json["first_failure"]["no_restart"] = v.no_restart;
  if (v.step >= 0) json["first_failure"]["step"] = v.step;
  // What a program printed need not be UTF-8; JSON must be.
  json = parse_json<nlohmann::json>(
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace hgt
