#include "hgtrain/launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr int kMaxWorkers = 4096;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kConfig, "--hosts: " + message,
              "hosts are separated by commas, and each may have a number of workers: a:4,b:4");
}

JobHost parse_host(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  JobHost out{word.substr(0, colon), 0};
  if (colon != std::string::npos) {
    const char* const end = word.data() + word.size();
    const auto [last, error] = std::from_chars(word.data() + colon + 1, end, out.workers);
    if (error != std::errc() || last != end || out.workers < 1 || out.workers > kMaxWorkers)
      refuse(fmt::format("'{}' is not a number of workers, 1 to {}", word.substr(colon + 1),
                         kMaxWorkers));
  }
  if (out.name.empty()) refuse("a host has no name");
  if (out.name[0] == '-' || std::any_of(out.name.begin(), out.name.end(), [](unsigned char c) {
        return std::isspace(c) || std::iscntrl(c);
      }))
    refuse(fmt::format("'{}' is not the name of a host", out.name));
  return out;
}

}  // namespace

std::vector<JobHost> parse_hosts(const std::string& text) {
  std::vector<JobHost> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(parse_host(text.substr(at, end - at)));
    const auto same = [&](const JobHost& host) { return host.name == out.back().name; };
    if (std::count_if(out.begin(), out.end(), same) > 1)
      refuse(fmt::format("{} is given twice", out.back().name));
    at = end + 1;
  }
  return out;
}

}  // namespace hgt
