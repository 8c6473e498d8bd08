#include "hgtrain/launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>
#include <strings.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {
namespace {

constexpr int kMaxWorkers = 4096;
constexpr std::int64_t kMaxHostfileBytes = 16 << 20;
constexpr const char* kListHint =
    "hosts are separated by commas, and each may have a number of workers: a:4,b:4";
constexpr const char* kFileHint = "each line is a host and the number of its workers: a slots=4";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kConfig, message);
}

int workers_in(const std::string& text) {
  int out = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || last != end || out < 1 || out > kMaxWorkers)
    refuse(fmt::format("'{}' is not a number of workers, 1 to {}", text, kMaxWorkers));
  return out;
}

/// The name as ssh takes it: an address of IPv6 without the brackets that it has in lists.
std::string name_in(const std::string& text) {
  if (text.empty()) refuse("a host has no name");
  std::string out = text;
  const std::size_t bracket = out.find('[');
  if (bracket != std::string::npos && out.back() == ']') {
    out.pop_back();
    out.erase(bracket, 1);
  } else if (out.find(':') != std::string::npos) {
    refuse(fmt::format("'{}' is not the name of a host; an IPv6 address has brackets: [fd00::1]",
                       text));
  }
  const bool is_odd = std::any_of(out.begin(), out.end(), [](unsigned char c) {
    return std::isspace(c) || std::iscntrl(c) || c == '[' || c == ']';
  });
  if (out.empty() || out[0] == '-' || is_odd)
    refuse(fmt::format("'{}' is not the name of a host", text));
  return out;
}

/// "a" or "a:4".
JobHost host_in_list(const std::string& word) {
  const std::size_t colon = word.ends_with(']') ? std::string::npos : word.rfind(':');
  if (colon == std::string::npos) return {name_in(word), 0};
  return {name_in(word.substr(0, colon)), workers_in(word.substr(colon + 1))};
}

/// "a slots=4", of which nothing is left out.
JobHost host_in_line(const std::vector<std::string>& words) {
  constexpr std::string_view kSlots = "slots=";
  if (words.size() < 2) refuse(fmt::format("{} has no slots=N", words[0]));
  if (words.size() > 2 || !words[1].starts_with(kSlots))
    refuse(fmt::format("'{}' is not known here: only slots=N is", words.back()));
  return {name_in(words[0]), workers_in(words[1].substr(kSlots.size()))};
}

/// DNS takes A and a for the same.
void add(JobHost host, std::vector<JobHost>& hosts) {
  for (const JobHost& other : hosts)
    if (strcasecmp(host.name.c_str(), other.name.c_str()) == 0)
      refuse(fmt::format("{} is given twice", host.name));
  hosts.push_back(std::move(host));
}

}  // namespace

std::vector<JobHost> parse_hosts(const std::string& text) {
  std::vector<JobHost> out;
  try {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      add(host_in_list(text.substr(at, end - at)), out);
      at = end + 1;
    }
  } catch (const Error& e) {
    throw Error(ErrorKind::kConfig, "--hosts: " + e.message(), kListHint);
  }
  return out;
}

std::vector<JobHost> parse_hostfile(const std::string& text, const std::string& path) {
  std::vector<JobHost> out;
  std::optional<Error> wrong;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    try {
      add(host_in_line(words), out);
    } catch (const Error& e) {
      Error error(ErrorKind::kConfig, fmt::format("{}:{}: {}", path, number, e.message()),
                  kFileHint);
      if (wrong)
        wrong->also(std::move(error));
      else
        wrong = std::move(error);
    }
  }
  if (wrong) throw *wrong;
  if (out.empty()) throw Error(ErrorKind::kConfig, path + " names no host", kFileHint);
  return out;
}

std::vector<JobHost> hosts_of(const std::string& list, const std::string& hostfile) {
  if (!list.empty() && !hostfile.empty())
    throw Error(ErrorKind::kConfig, "--hosts and --hostfile exclude each other", "keep one");
  if (!list.empty()) return parse_hosts(list);
  if (hostfile.empty()) return {};
  if (!path_exists(hostfile, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, "there is no hostfile " + hostfile, kFileHint);
  return parse_hostfile(read_file(hostfile, kMaxHostfileBytes), hostfile);
}

}  // namespace hgt
