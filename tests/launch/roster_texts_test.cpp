#include "roster_texts.h"

#include <catch2/catch.hpp>

#include "support/refusal.h"

using namespace hgt;

namespace {

const std::vector<RankRange> kRanges{{0, 2}, {1, 2}};
constexpr const char* kDenied = "root@b: Permission denied (publickey).";

/// Host a is here, and host b cannot be used for that reason.
std::vector<RosterHost> without_b(const std::string& why) {
  std::vector<RosterHost> out(2);
  out[0].spec.name = "a";
  out[0].state = Candidate::State::kHere;
  out[1].spec.name = "b";
  out[1].state = Candidate::State::kAway;
  out[1].why_away = why;
  return out;
}

}  // namespace

TEST_CASE("a host that cannot be used is named with the reason and ssh's hint") {
  const Error error = why_unusable(without_b(kDenied), kRanges, false);
  CHECK(error.kind() == ErrorKind::kDevice);
  CHECK(has(error.render(), "host b cannot be used: root@b: Permission denied"));
  CHECK(has(error.render(), "ssh-copy-id"));
  CHECK_FALSE(has(error.render(), "ForwardAgent"));
}

TEST_CASE("a host that lacks something is named without a hint about ssh") {
  auto hosts = without_b("there is no program ./train.py");
  hosts[1].lacks = hosts[1].why_away;
  CHECK(why_unusable(hosts, kRanges, false).hint() == "");
  hosts[1].why_away = kDenied;
  CHECK(has(why_unusable(hosts, kRanges, false).hint(), "ssh-copy-id"));
}

TEST_CASE("if the launcher runs on a host of the job, what to do is to be done there") {
  auto hosts = without_b(kDenied);
  hosts[0].is_here = true;
  const std::string text = why_unusable(hosts, kRanges, false).render();
  CHECK(has(text, "host b cannot be used from a, where the launcher runs: root@b"));
  CHECK(has(text, "there, "));
  CHECK(has(text, "ForwardAgent yes"));
}

TEST_CASE("a node that has not dialled is a peer that is missing") {
  auto hosts = without_b("it has not joined within 600 s");
  hosts[1].spec.name = "node 1";
  const Error error = why_unusable(hosts, kRanges, true);
  CHECK(error.kind() == ErrorKind::kPeer);
  CHECK(error.message() == "node 1 cannot be used: it has not joined within 600 s");
  CHECK(has(error.render(), "--join_timeout SECONDS waits for longer"));
}

TEST_CASE("if all hosts can be used, the number of ranks is wrong") {
  auto hosts = without_b("");
  hosts[1].state = Candidate::State::kHere;
  const Error error = why_unusable(hosts, kRanges, false);
  CHECK(error.kind() == ErrorKind::kConfig);
  CHECK(has(error.render(), "the job cannot be split over 4 ranks, nor over fewer"));
}

TEST_CASE("if all hosts can be used, the first may not see the run folder") {
  auto hosts = without_b("");
  hosts[1].state = Candidate::State::kHere;
  hosts[0].facts.emplace().missing_run_dir = "runs/mine";
  const Error error = why_unusable(hosts, kRanges, false);
  CHECK(error.kind() == ErrorKind::kConfig);
  CHECK(has(error.message(), "host a, which has rank 0, does not see the run folder runs/mine"));
  CHECK(has(error.hint(), "--detach"));
}
