#include "doctor_hosts.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kUsualJitterNs = 1'000'000;

/// The report of a host's own doctor, an object.
Json doctor_of(const SurveyedHost& host) {
  const Json said = try_parse_json<Json>(host.host.facts.doctor);
  return said.is_object() ? said : Json::object();
}

/// "2 x NVIDIA H100"
std::string gpus_text(const HostFacts& facts) {
  std::map<std::string, int> models;
  for (const std::string& name : facts.gpu_names) ++models[name.empty() ? "GPU" : name];
  std::vector<std::string> out;
  for (const auto& [model, count] : models) out.push_back(fmt::format("{} x {}", count, model));
  return out.empty() ? "none" : fmt::format("{}", fmt::join(out, ", "));
}

/// Columns as wide as their widest word.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:{}}", row[i], i + 1 < row.size() ? widths[i] + 2 : 0);
    out += line + "\n";
  }
  return out;
}

std::string rank_table(const std::vector<SurveyedHost>& hosts) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "local rank", "GPU"}};
  bool has_gpus = false;
  int rank = 0;
  for (const SurveyedHost& host : hosts) {
    if (host.host.spec.is_spare) continue;
    const std::vector<std::string> gpus = used_gpus(host.host);
    const char* const otherwise = host.why_unusable.empty() ? "none" : "unknown";
    for (int local = 0; local < host.host.spec.workers; ++local) {
      const std::string& gpu = gpus[static_cast<std::size_t>(local)];
      has_gpus = has_gpus || !gpu.empty();
      rows.push_back({fmt::to_string(rank++), host.host.spec.name, fmt::to_string(local),
                      gpu.empty() ? otherwise : gpu});
    }
  }
  return has_gpus ? "\n" + table(rows) : "";
}

std::string names_of(const SurveyResult& found, const SurveyedLink& link) {
  return fmt::format("{} to {}", found.hosts[link.from].host.spec.name,
                     found.hosts[link.to].host.spec.name);
}

std::string link_table(const SurveyResult& found) {
  std::vector<std::vector<std::string>> rows{{"link", "round trip", "bandwidth"}};
  for (const SurveyedLink& link : found.links)
    if (link.why_unusable.empty())
      rows.push_back(
          {names_of(found, link),
           fmt::format("{:.0f} us", static_cast<double>(link.round_trip_ns) * 1e-3),
           fmt::format("{:.2f} Gbit/s", static_cast<double>(link.bytes_per_second) * 8e-9)});
    else
      rows.push_back({names_of(found, link), "-", "-"});
  return found.links.empty() ? "" : "\n" + table(rows);
}

template <class Value>
std::int64_t median(const SurveyResult& found, Value value) {
  std::vector<std::int64_t> all;
  for (const SurveyedLink& link : found.links)
    if (link.why_unusable.empty()) all.push_back(value(link));
  if (all.empty()) return 0;
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2];
}

/// Adds findings for links that fail, and for those that are much slower than most.
void check_links(const SurveyResult& found, HostsDiagnosis& out) {
  const std::int64_t bandwidth = median(found, [](auto& link) { return link.bytes_per_second; });
  const std::int64_t round_trip = median(found, [](auto& link) { return link.round_trip_ns; });
  for (const SurveyedLink& link : found.links) {
    const std::string names = names_of(found, link);
    if (!link.why_unusable.empty()) {
      out.problems.push_back(
          {fmt::format("from host {} no connection can be made: {}", names, link.why_unusable),
           "check the firewalls between them; if they share another network, name it with "
           "iface= or addr= in the hostfile"});
      continue;
    }
    if (link.bytes_per_second < bandwidth / 2)
      out.notices.push_back(
          fmt::format("from host {} the bandwidth is {:.2f} Gbit/s; most links "
                      "have {:.2f}",
                      names, static_cast<double>(link.bytes_per_second) * 8e-9,
                      static_cast<double>(bandwidth) * 8e-9));
    if (link.round_trip_ns > 3 * round_trip + kUsualJitterNs)
      out.notices.push_back(fmt::format(
          "from host {} a round trip takes {:.1f} ms; on most links it is {:.1f}", names,
          static_cast<double>(link.round_trip_ns) * 1e-6, static_cast<double>(round_trip) * 1e-6));
  }
}

}  // namespace

HostsDiagnosis diagnose_hosts(const SurveyResult& found_out) {
  const std::vector<SurveyedHost>& hosts = found_out.hosts;
  HostsDiagnosis out;
  std::vector<InspectedHost> usable;
  std::vector<std::string> advices;
  for (const SurveyedHost& host : hosts) {
    const std::string& name = host.host.spec.name;
    if (!host.why_unusable.empty()) {
      out.problems.push_back(
          {fmt::format("host {} cannot be used: {}", name, host.why_unusable), host.hint});
      continue;
    }
    usable.push_back(host.host);
    const Json said = doctor_of(host);
    if (said.empty()) out.problems.push_back({"host " + name + ": its hgtrain doctor fails", ""});
    for (const Json& problem : said.value("problems", Json::array()))
      out.problems.push_back({fmt::format("host {}: {}", name, problem.value("message", "")),
                              problem.value("hint", "")});
    for (const Json& advice : said.value("advice", Json::array()))
      advices.push_back(fmt::format("on host {} {}", name, advice.value("message", "")));
  }
  const Preflight found = check_hosts(usable, /*own_cpu_workers=*/true);
  for (const Error& error : found.errors) out.problems.push_back({error.message(), error.hint()});
  out.notices = found.notices;
  if (!found_out.no_address.empty()) out.notices.push_back(found_out.no_address);
  for (const std::string& advice : advices)  // unless the comparison has said the same
    if (std::ranges::none_of(found.notices, [&](const std::string& notice) {
          return notice.find(advice) != std::string::npos;
        }))
      out.notices.push_back(advice);
  check_links(found_out, out);
  return out;
}

std::string hosts_text(const SurveyResult& found, const HostsDiagnosis& diagnosis) {
  const std::vector<SurveyedHost>& hosts = found.hosts;
  std::vector<std::vector<std::string>> rows{
      {"host", "workers", "CPUs", "memory", "GPUs", "driver", "network", "state"}};
  for (const SurveyedHost& host : hosts) {
    const HostFacts& facts = host.host.facts;
    const int number = host.host.spec.workers;  // 0: neither flags nor the host have said
    const std::string workers = number == 0 ? "-" : fmt::to_string(number);
    if (!host.why_unusable.empty())
      rows.push_back({host.host.spec.name, workers, "-", "-", "-", "-", "-", "cannot be used"});
    else
      rows.push_back({host.host.spec.name, workers, fmt::to_string(facts.cores),
                      human_bytes(facts.memory_bytes), gpus_text(facts),
                      facts.driver.empty() ? "none" : facts.driver,
                      facts.interface.empty()
                          ? "unknown"
                          : fmt::format("{}, MTU {}", facts.interface, facts.mtu),
                      host.host.spec.is_spare ? "spare" : "answers"});
  }
  std::string out = table(rows) + rank_table(hosts) + link_table(found);
  if (!diagnosis.problems.empty() || !diagnosis.notices.empty()) out += "\n";
  for (const Finding& problem : diagnosis.problems) {
    out += "problem: " + problem.message + "\n";
    if (!problem.hint.empty()) out += "  hint: " + problem.hint + "\n";
  }
  for (const std::string& notice : diagnosis.notices) out += "notice: " + notice + "\n";
  return out + (diagnosis.problems.empty() ? "ready: a job can run on these hosts\n"
                                           : "not ready: see the problems\n");
}

Json hosts_json(const SurveyResult& found, const HostsDiagnosis& diagnosis) {
  Json list = Json::array(), links = Json::array(), problems = Json::array();
  for (const SurveyedLink& link : found.links)
    links.push_back({{"from", found.hosts[link.from].host.spec.name},
                     {"to", found.hosts[link.to].host.spec.name},
                     {"round_trip_seconds", static_cast<double>(link.round_trip_ns) * 1e-9},
                     {"bytes_per_second", link.bytes_per_second},
                     {"why_unusable", link.why_unusable}});
  for (const SurveyedHost& host : found.hosts) {
    const HostFacts& facts = host.host.facts;
    const auto& clock = host.host.clock;
    list.push_back({{"name", host.host.spec.name},
                    {"workers", host.host.spec.workers},
                    {"why_unusable", host.why_unusable},
                    {"clock_ahead_seconds",
                     clock ? Json(static_cast<double>(clock->ahead_ns) * 1e-9) : Json()},
                    {"interface", facts.interface},
                    {"mtu", facts.mtu},
                    {"rank_gpus", used_gpus(host.host)},
                    {"doctor", doctor_of(host)}});
  }
  for (const Finding& problem : diagnosis.problems)
    problems.push_back({{"message", problem.message}, {"hint", problem.hint}});
  return {
      {"hosts", list}, {"links", links}, {"problems", problems}, {"notices", diagnosis.notices}};
}

}  // namespace hgt
