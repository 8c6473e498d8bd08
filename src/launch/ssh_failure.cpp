#include "ssh_failure.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hgt {
namespace {

constexpr std::string_view kKeyChanged = "its host key has changed";
constexpr std::string_view kKeyUnknown = "its host key is not known here";
constexpr std::string_view kBehindJump = "its jump host cannot reach it";
constexpr std::string_view kJump = "its jump host or ProxyCommand fails";

constexpr std::string_view kRefused = "Connection refused";
constexpr std::string_view kNoRoute =
    "the host is down, or there is no route to it: `ip route get ADDRESS` shows the way, and "
    "HostName or ProxyJump in ~/.ssh/config another";

/// For reasons that say both: `text` has {login} for the ssh command of the host, and {host} for
/// its name. The first that fits counts.
struct Hint {
  std::string_view says;
  std::string_view says_too;
  std::string_view text;
};

// First what the host itself says after the login: the system's words in it mean something else.
constexpr Hint kHints[] = {
    {"program cannot be sent", "",
     "it needs up to 150 MB of room in ~/.cache there (or $XDG_CACHE_HOME), or the same hgtrain at "
     "the same path"},
    {"cannot run hgtrain", "Permission denied",
     "no file in ~/.cache may be executed there (noexec?): set XDG_CACHE_HOME there to a folder "
     "that allows it, or install the same hgtrain at the same path"},
    {"cannot run hgtrain", "",
     "a package made by scripts/package runs on systems with glibc 2.35 and AVX2, a build for this "
     "machine often needs more"},
    {kBehindJump, "",
     "log in to the jump host of ~/.ssh/config (ProxyJump) and try from there: the name and the "
     "port are looked up there"},
    {kJump, "", "`ssh -v {host} true` shows what ProxyJump or ProxyCommand of ~/.ssh/config does"},
    {"Temporary failure in name resolution", "",
     "the name is wrong, or the DNS server does not answer; an address in place of the name, or "
     "HostName in "
     "~/.ssh/config, needs none"},
    {"Could not resolve hostname", "",
     "this name is neither in DNS, nor in /etc/hosts, nor in ~/.ssh/config"},
    {kRefused, "",
     "the host is there, but no ssh server listens on that port: --ssh_port, or Port in "
     "~/.ssh/config, says which"},
    {"banner exchange", "",
     "something accepts connections there, or a proxy does on the way, but no ssh server answers: "
     "it hangs, or this is another service's port"},
    {"timed out", "", "the host is down, or a firewall drops what is sent to that port"},
    {"No route to host", "", kNoRoute},
    {"Network is unreachable", "", kNoRoute},
    {kKeyChanged, "",
     "if the host was reinstalled, remove that line (ssh-keygen -R) and confirm its new key with "
     "{login}; otherwise something else answers at its address"},
    {kKeyUnknown, "", "run `{login}` once by hand and confirm the host's key"},
    {"Too many authentication failures", "",
     "ssh offers too many keys: IdentitiesOnly yes and IdentityFile in ~/.ssh/config name one"},
    {kTooMuchNoise, "",
     "its start-up files (~/.bashrc and so on) must print nothing if no terminal is there"},
    {"bad permissions", "", "chmod 600 the key: ssh ignores one that others can read"},
    {"Permission denied", "",
     "`{login} true` must work without a password: install a key with ssh-copy-id, or start "
     "ssh-agent"},
    {"there is no program", "", "install the same hgtrain at the same path on every host"},
    {kNoAnswer, "",
     "a start-up file of its login shell may wait for input: `{login} true` must end"},
    {kNoWord, "",
     "a start-up file of its login shell may end it, or ProxyCommand of ~/.ssh/config fails: "
     "`{login} true; echo $?` must print 0"},
    {kSilence, "", "the host or its network is down"},
    {"Bad configuration option", "", "correct it, or remove the line"},
    {"login shell", "",
     "`{login} true` must work: the user needs a shell there (chsh), not nologin"},
};

bool has(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

/// Without those that are empty, or hints of hgtrain, or only say that ssh has noted a host's key
/// or that the user has no home there.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of("\r ") + 1);
    if (!line.empty() && !line.starts_with("Warning: Permanently added") &&
        !line.starts_with("Could not chdir to home directory") && !line.starts_with("  hint: "))
      out.push_back(line);
  }
  return out;
}

/// The first that has these words; "" if none has.
std::string line_with(const std::vector<std::string>& lines, std::string_view words) {
  const auto line = std::ranges::find_if(lines, [&](auto& line) { return has(line, words); });
  return line == lines.end() ? "" : *line;
}

/// What follows the first `words` in any line; "" if none has them.
std::string after(const std::vector<std::string>& lines, std::string_view words) {
  const std::string line = line_with(lines, words);
  return line.empty() ? "" : line.substr(line.find(words) + words.size());
}

/// What ssh prints last if the connection that another program was to make has ended.
bool is_only_an_end(const std::string& line) {
  return line.starts_with("kex_exchange_identification:") ||
         line.starts_with("Connection closed by UNKNOWN") ||
         line.starts_with("banner exchange: Connection to UNKNOWN");
}

}  // namespace

std::vector<std::string> login_flags(const JobHost& host) {
  std::vector<std::string> out;
  if (host.ssh_port != 0) out.insert(out.end(), {"-p", std::to_string(host.ssh_port)});
  if (!host.user.empty()) out.insert(out.end(), {"-l", host.user});
  return out;
}

std::string why_ssh_ended(const std::string& stderr_text) {
  std::vector<std::string> lines = lines_of(stderr_text);
  if (lines.empty()) return "";
  const std::string last = lines.back();
  if (last.starts_with("Host key verification failed")) {
    if (has(stderr_text, "IDENTIFICATION HAS CHANGED"))
      return fmt::format("{}: it is not the one in {}", kKeyChanged,
                         after({after(lines, "Offending ")}, " key in "));
    return std::string(kKeyUnknown);
  }
  if (const std::string key = after(lines, "Load key "); has(last, "denied") && !key.empty())
    return fmt::format("{} (key {})", last, key);
  if (has(last, "bad configuration option")) return line_with(lines, "Bad configuration option");
  while (lines.size() > 1 && is_only_an_end(lines.back())) lines.pop_back();
  if (is_only_an_end(last) && lines.back() == "stdio forwarding failed")
    return fmt::format("{}: {}", kBehindJump, after(lines, "open failed: "));
  if (is_only_an_end(last) && (!is_only_an_end(lines.back()) || has(last, " UNKNOWN ")))
    return fmt::format("{}: {}", kJump, lines.back());
  return last;
}

bool is_dropped(std::string_view why) {
  if (has(why, " UNKNOWN ")) return false;  // a ProxyCommand has ended: no server has answered
  if (why.starts_with(kJump)) why.remove_prefix(kJump.size() + 2);
  return why.starts_with("kex_exchange_identification: ") ||
         why.starts_with("Connection closed by ") || why.starts_with("Connection reset by ");
}

bool is_slow(std::string_view why) {
  return has(why, "timed out during banner exchange");
}

std::string hint_for_ssh(const JobHost& host, const std::string& why) {
  if (is_dropped(why))
    return fmt::format(
        "{} ssh server drops connections before the login: too many at once (MaxStartups in its "
        "sshd_config), or it does not accept this address",
        has(why, kJump) ? "the jump host's" : "its");
  if (is_same_host(host.name, "localhost"))
    return "localhost needs no ssh only if it is the only host, and the others cannot reach it by "
           "this name: use the one in their network, to which ssh must log in here, too; or type "
           "the command on each host, with --no_ssh and its --node_rank";
  const auto hint = std::ranges::find_if(
      kHints, [&](const Hint& hint) { return has(why, hint.says) && has(why, hint.says_too); });
  if (hint == std::end(kHints)) return "";
  std::vector<std::string> login = login_flags(host);
  login.push_back(host.name);
  return fmt::format(fmt::runtime(hint->text),
                     fmt::arg("login", fmt::format("ssh {}", fmt::join(login, " "))),
                     fmt::arg("host", host.name));
}

}  // namespace hgt
