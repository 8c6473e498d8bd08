#include "hgtrain/launch/survey.h"

#include <csignal>
#include <set>

#include <catch2/catch.hpp>

#include "fake_ssh.h"

using namespace hgt;

namespace {

/// In place of this test, the launcher is the agent.
const std::string kStartAgent =
    "SSH_CONNECTION=\"10.0.0.9 1 ${address:-10.0.0.1} 22\" exec sh -c "
    "\"$(echo \"$last\" | sed \"s#[^' ]*launch_test#" LAUNCHER "#\")\"";

std::vector<SurveyedHost> survey(const std::vector<JobHost>& hosts) {
  return survey_hosts(hosts, false, [](const std::string&) {}).hosts;
}

}  // namespace

TEST_CASE("each host answers for itself, or says why it cannot be used") {
  const FakeSsh ssh(
      "[ $host = b ] && { echo \"no route to $host\" >&2; exit 255; }; "
      "nonce=$(echo \"$last\" | grep -oE '[0-9a-f]{64}' | tail -n 1); "
      "[ $host = c ] && { echo; echo $nonce; exec cat /dev/zero; }; "
      "[ $host = d ] && { exec <&-; echo; echo $nonce; exec sleep 60; }; " +
      kStartAgent);
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  const auto found =
      survey({{.name = "a"}, {.name = "b", .workers = 2}, {.name = "c"}, {.name = "d"}});
  CHECK(std::signal(SIGPIPE, before) == SIG_DFL);
  REQUIRE(found.size() == 4);
  CHECK(found[0].why_unusable == "");
  CHECK(found[0].host.spec.workers >= 1);
  CHECK(found[0].host.facts.cores > 0);
  REQUIRE(found[0].host.clock);
  CHECK(std::abs(found[0].host.clock->ahead_ns) <=
        found[0].host.clock->uncertainty_ns + 10'000'000'000);
  CHECK(found[1].why_unusable == "no route to b");
  CHECK(found[1].host.spec.workers == 2);
  CHECK(found[2].why_unusable != "");
  CHECK(found[3].why_unusable != "");  // it takes nothing
}

TEST_CASE("more hosts than are called at once all answer") {
  const FakeSsh ssh(kStartAgent);
  std::vector<JobHost> hosts;
  for (int i = 0; i < 12; ++i) hosts.push_back({.name = "h" + std::to_string(i)});
  for (const SurveyedHost& host : survey(hosts)) CHECK(host.why_unusable == "");
}

TEST_CASE("a first host that ssh reaches at a loopback needs another address") {
  const FakeSsh ssh("[ $host = a ] && address=127.0.0.1; " + kStartAgent);
  const auto found = [](const std::vector<JobHost>& hosts) {
    return survey_hosts(hosts, false, [](const std::string&) {}).no_address;
  };
  CHECK(found({{.name = "a"}, {.name = "b"}}) ==
        "ssh reaches host a at 127.0.0.1, where other hosts cannot reach it: use --master_addr "
        "with its address in the network of the others");
  CHECK(found({{.name = "b"}, {.name = "a"}}) == "");
  CHECK(found({{.name = "a"}}) == "");
  CHECK(found({{.name = "a", .is_spare = true}, {.name = "b"}, {.name = "c"}}) == "");
}

TEST_CASE("each pair comes once, in rounds in which no host is in two pairs") {
  const std::size_t num = GENERATE(0, 1, 2, 3, 4, 7, 8);
  std::set<std::pair<std::size_t, std::size_t>> all;
  for (const auto& round : pairs_in_rounds(num)) {
    std::set<std::size_t> busy;
    for (const auto& [a, b] : round) {
      CHECK(a < b);
      CHECK(b < num);
      CHECK(all.emplace(a, b).second);
      CHECK(busy.insert(a).second);
      CHECK(busy.insert(b).second);
    }
  }
  CHECK(all.size() == (num == 0 ? 0 : num * (num - 1) / 2));
  CHECK(pairs_in_rounds(num).size() <= num);
}
