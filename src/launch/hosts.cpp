#include "hgtrain/launch/hosts.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>
#include <strings.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/error_list.h"
#include "hgtrain/base/utf8.h"

#include "host_range.h"

namespace hgt {
namespace {

constexpr const char* kListHint =
    "hosts are separated by commas, and each may have a number of workers: a:4,n[01-16]:8";
constexpr const char* kFileHint =
    "each line is a host and the number of its workers: a slots=4; names alone can be given with "
    "--hosts a,b --num_workers 4";
constexpr const char* kOnceHint = "write one line with slots=N in place of several";

int number_in(const std::string& text, const char* what, int max) {
  int out = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || last != end || out < 1 || out > max)
    throw refused(fmt::format("'{}' is not {}, 1 to {}", text, what, max));
  return out;
}

int workers_in(const std::string& text) {
  return number_in(text, "a number of workers", kMaxWorkersOfHost);
}

/// Characters that neither a name nor a word for ssh may have.
bool is_odd(const std::string& text) {
  return text.empty() || text[0] == '-' ||
         std::any_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isspace(c) || std::iscntrl(c) || c == '[' || c == ']' || c == ',' ||
                  c == '=';
         });
}

/// Digits and dots that are no address of IPv4: the system would read 1.2.3 as 1.2.0.3.
bool is_broken_address(const std::string& text) {
  in_addr address{};
  return text.find_first_not_of("0123456789.") == std::string::npos &&
         inet_pton(AF_INET, text.c_str(), &address) != 1;
}

/// The name as ssh takes it: an address of IPv6 without the brackets that it has in lists.
std::string name_in(const std::string& text) {
  if (text.empty()) throw refused("a host has no name");
  std::string out = text;
  const std::size_t bracket = out.find('[');
  if (bracket != std::string::npos && out.back() == ']' &&
      (bracket == 0 || out[bracket - 1] == '@')) {
    out.pop_back();
    out.erase(bracket, 1);
  } else if (out.find(':') != std::string::npos) {
    throw refused(fmt::format(
        "'{}' is not the name of a host; an IPv6 address has brackets: [fd00::1]", text));
  }
  if (is_odd(out) || bare_name(out).empty())
    throw refused(fmt::format("'{}' is not the name of a host", text));
  return out;
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> out = expand_names(text);
  for (std::string& name : out) name = name_in(name);
  return out;
}

void add(JobHost host, std::vector<JobHost>& hosts, const char* hint_if_twice = "") {
  for (const JobHost& other : hosts)
    if (is_same_host(host.name, other.name))
      throw refused(fmt::format("{} is given twice", host.name), hint_if_twice);
  if (hosts.size() == kMaxHosts)
    throw refused(fmt::format("there are more than {} hosts", kMaxHosts));
  hosts.push_back(std::move(host));
}

/// "write `a slots=2`" if a line is as MPICH's and Intel MPI's hostfiles have it, "a:2".
std::string hint_for_colon(const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string number = colon == std::string::npos ? "" : word.substr(colon + 1);
  return number.empty() || number.find_first_not_of("0123456789") != std::string::npos
             ? ""
             : fmt::format("write `{} slots={}`", word.substr(0, colon), number);
}

/// Reads a hostfile line by line, and remembers everything that is wrong.
class HostfileReader {
 public:
  explicit HostfileReader(const std::string& path) : path_(path) {}

  void read(const std::string& line) {
    ++number_;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (!words.empty()) attempt([&] { read_words(words); });
  }
  std::vector<JobHost> hosts() const {
    wrong_.throw_if_any();
    if (hosts_.empty()) throw refused(path_ + " names no host", kFileHint);
    return hosts_;
  }

 private:
  template <class Act>
  void attempt(const Act& act) {
    try {
      act();
    } catch (const Error& e) {
      wrong_.add(Error(ErrorKind::kConfig, fmt::format("{}:{}: {}", path_, number_, e.message()),
                       e.hint().empty() ? kFileHint : e.hint()));
    }
  }

  void read_words(const std::vector<std::string>& words) {
    if (std::ranges::any_of(words, [](const std::string& word) { return word[0] == '='; }))
      throw refused("there is a blank before =");
    JobHost host;
    std::set<std::string> keys;
    bool has_slots = false;
    int max_slots = kMaxWorkersOfHost;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      const std::string key = words[i].substr(0, equals);
      has_slots = has_slots || key == "slots";
      attempt([&] {
        if (!keys.insert(key).second) throw refused(fmt::format("{} is given twice", key));
        const std::string value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
        if (key == "max_slots" || key == "max-slots")
          max_slots = workers_in(value);
        else
          read_key(words[i], key, value, host);
      });
    }
    if (!has_slots && !without_slots_.insert(words[0]).second)  // as in a nodefile of PBS
      throw refused(fmt::format("{} is given twice", words[0]), kOnceHint);
    if (!has_slots)
      throw refused(fmt::format("{} has no slots=N", words[0]), hint_for_colon(words[0]));
    if (host.workers > max_slots)
      throw refused(fmt::format("slots={} is more than max_slots={}", host.workers, max_slots));
    if (!host.devices.empty() && host.workers > 0 &&
        host.devices.size() != static_cast<std::size_t>(host.workers))
      throw refused(fmt::format("gpus names {}, and slots={}", host.devices.size(), host.workers),
                    "each worker has a GPU: slots=2 gpus=0,3");
    const std::vector<std::string> names = names_in(words[0]);
    if (!host.address.empty() && names.size() > 1)
      throw refused(fmt::format("addr={} is the address of one host, and {} names {}", host.address,
                                words[0], names.size()),
                    "a line for each, or iface=NAME if it is that interface's address everywhere");
    for (const std::string& name : names)
      attempt([&] {
        host.name = name;
        add(host, hosts_, kOnceHint);
      });
  }

  static void read_key(const std::string& word, const std::string& key, const std::string& value,
                       JobHost& host) {
    if (key == "slots") {
      host.workers = workers_in(value);
    } else if (key == "gpus") {
      host.devices = device_list(value);
      const std::set<std::string> distinct(host.devices.begin(), host.devices.end());
      if (distinct.size() != host.devices.size())
        throw refused(fmt::format("{} names a GPU twice", word));
    } else if (key == "user") {
      if (is_odd(value)) throw refused(fmt::format("'{}' is not the name of a user", value));
      host.user = value;
    } else if (key == "ssh_port") {
      host.ssh_port = number_in(value, "a port", 65535);
    } else if (key == "addr") {
      if (is_odd(value) || is_broken_address(value))
        throw refused(fmt::format("'{}' is not an address", value));
      host.address = value;
    } else if (key == "iface") {
      if (is_odd(value)) throw refused(fmt::format("'{}' is not a network interface", value));
      host.interface = value;
    } else if (word == "spare") {
      host.is_spare = true;
    } else {
      throw refused(
          fmt::format("'{}' is not a key of a hostfile; use slots=N, max_slots=N, gpus=0-3, "
                      "user=NAME, ssh_port=N, addr=ADDRESS, iface=NAME or spare",
                      word));
    }
  }

  const std::string path_;
  int number_ = 0;
  std::vector<JobHost> hosts_;
  std::set<std::string> without_slots_;
  ErrorList wrong_;
};

}  // namespace

std::vector<JobHost> without_spares(std::vector<JobHost> hosts) {
  std::erase_if(hosts, [](const JobHost& host) { return host.is_spare; });
  return hosts;
}

std::string bare_name(const std::string& name) {
  return name.substr(name.rfind('@') + 1);  // npos + 1 is 0
}

bool is_same_host(const std::string& a, const std::string& b) {
  return strcasecmp(bare_name(a).c_str(), bare_name(b).c_str()) == 0;
}

std::vector<JobHost> parse_hosts(const std::string& text) {
  std::vector<JobHost> out;
  ErrorList wrong;
  for (const std::string& word : split_outside_brackets(text, ',')) try {
      const std::size_t colon = word.ends_with(']') ? std::string::npos : word.rfind(':');
      const int workers = colon == std::string::npos ? 0 : workers_in(word.substr(colon + 1));
      for (const std::string& name : names_in(word.substr(0, colon)))
        add({.name = name, .workers = workers}, out);
    } catch (const Error& e) {
      wrong.add(Error(ErrorKind::kConfig, fmt::format("--hosts: in '{}', {}", word, e.message()),
                      e.hint().empty() ? kListHint : e.hint()));
    }
  wrong.throw_if_any();
  return out;
}

std::vector<JobHost> parse_hostfile(const std::string& text, const std::string& path) {
  HostfileReader reader(path);
  std::istringstream lines(std::string(without_byte_order_mark(text)));
  for (std::string line; std::getline(lines, line);) reader.read(line);
  return reader.hosts();
}

}  // namespace hgt
