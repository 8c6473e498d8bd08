#include "failure.h"

#include <csignal>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/wire/messages.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

Ended ended(int wait_status, bool out_of_memory = false) {
  Ended out;
  out.rank = 1;
  out.wait_status = wait_status;
  out.max_rss_kib = 3 << 20;
  out.at_ns = 5;
  out.out_of_memory = out_of_memory;
  return out;
}

}  // namespace

TEST_CASE("how a process ended, in words and as an exit code") {
  CHECK(exit_code_of(ended(7 << 8)) == 7);
  CHECK(reason_of(ended(7 << 8)) == "exited with code 7");
  CHECK(exit_code_of(ended(SIGKILL)) == 137);
  CHECK(reason_of(ended(SIGKILL)) == "was killed by SIGKILL (Killed)");
  CHECK(reason_of(ended(SIGKILL, true)) ==
        "was killed by SIGKILL (Killed), because memory ran out; it had used 3.0 GiB");
  CHECK(reason_of(ended(SIGABRT | 0x80)) == "was killed by SIGABRT (Aborted), core dumped");
  CHECK(reason_of(ended(SIGRTMIN + 1)).starts_with("was killed by signal"));
}

TEST_CASE("a SIGKILL from outside gets a hint at the memory, also as the code of a shell") {
  CHECK(hint_of(ended(SIGKILL)).starts_with("most often, memory ran out"));
  CHECK(hint_of(ended(SIGKILL, true)) == "use fewer workers or a smaller micro-batch");
  CHECK(hint_of(ended(137 << 8)) == hint_of(ended(SIGKILL)));
  CHECK(hint_of(ended(SIGTERM)).empty());
  CHECK(hint_of(ended(9 << 8)).empty());
}

TEST_CASE("a rank that is killed with its guard says so, without a hint at the memory") {
  Ended end = ended(SIGKILL);
  end.lost_guard = true;
  CHECK(reason_of(end) == "was killed with its guard process");
  CHECK(hint_of(end).empty());
}

TEST_CASE("only hgtrain's own workers may stop early, and their exit codes say what failed") {
  CHECK(is_clean(ended(0), false));
  CHECK(is_clean(ended(75 << 8), true));
  CHECK_FALSE(is_clean(ended(75 << 8), false));
  const Failure config = failure_from_end(ended(2 << 8), true);
  CHECK(config.rank == 1);
  CHECK(config.at_ns == 5);
  CHECK(config.exit_code == 2);
  CHECK(config.permanent);
  CHECK_FALSE(config.by_peer);
  CHECK(failure_from_end(ended(6 << 8), true).by_peer);
  CHECK_FALSE(failure_from_end(ended(2 << 8), false).permanent);
  CHECK_FALSE(failure_from_end(ended(6 << 8), false).by_peer);
}

TEST_CASE("the first failure counts, but one that only lost a peer not before others") {
  CHECK(first_failure({}) == nullptr);
  Failure peer;
  peer.rank = 0;
  peer.at_ns = 1;
  peer.by_peer = true;
  Failure culprit;
  culprit.rank = 1;
  culprit.at_ns = 3;
  Failure later;
  later.rank = 2;
  later.at_ns = 4;
  CHECK(first_failure({{0, peer}, {2, later}, {1, culprit}})->rank == 1);
  CHECK(first_failure({{0, peer}})->rank == 0);
}

TEST_CASE("if the clocks of two hosts are not known well, either may have failed first") {
  Failure first;
  first.rank = 0;
  first.at_ns = 1'000;
  first.uncertainty_ns = 100;
  Failure other;
  other.rank = 1;
  other.host = 1;
  other.uncertainty_ns = 200;
  const auto is_rival = [&] { return rival_of(first, {{0, first}, {1, other}}) != nullptr; };
  other.at_ns = 1'300;
  CHECK(is_rival());
  other.by_peer = true;
  CHECK_FALSE(is_rival());
  other.by_peer = false;
  other.at_ns = 1'301;
  CHECK_FALSE(is_rival());
  other.at_ns = 1'000;
  other.host = 0;  // one clock
  CHECK_FALSE(is_rival());
}

TEST_CASE("errors that would come again are permanent, a crash or a lost peer is not") {
  const auto permanent = [](ErrorKind kind) {
    return failure_from_event(0, failed_body(Error(kind, "x"))).permanent;
  };
  CHECK(permanent(ErrorKind::kConfig));
  CHECK(permanent(ErrorKind::kDevice));
  CHECK(permanent(ErrorKind::kData));
  CHECK(permanent(ErrorKind::kCheck));
  CHECK_FALSE(permanent(ErrorKind::kInternal));
  CHECK_FALSE(permanent(ErrorKind::kPeer));
}

TEST_CASE("PyTorch's error file gives the exception's message") {
  const TemporaryFolder folder;
  const std::string path = folder / "error.json";
  const auto message_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    return message_in_error_file(path);
  };
  CHECK(message_in_error_file("") == "");
  CHECK(message_in_error_file(folder / "missing") == "");
  CHECK(message_of(R"({"message": {"message": "RuntimeError: no", "extraInfo": {}}})") ==
        "RuntimeError: no");
  CHECK(message_of(R"({"message": "plain"})") == "plain");
  for (const char* text :
       {"", "{", "[]", "3", R"({"message": 3})", R"({"message": {"message": []}})"})
    CHECK(message_of(text) == "");
}

TEST_CASE("a failure is a rank's or a host's, and the first one counts") {
  Failure host;
  host.rank = -1;
  host.host = 2;
  host.host_name = "n03";
  host.at_ns = 1;
  Failure rank;
  rank.rank = 2;
  rank.at_ns = 2;
  CHECK(host.key() != rank.key());
  CHECK(first_failure({{host.key(), host}, {rank.key(), rank}})->culprit() == "host n03");
  CHECK(rank.culprit() == "rank 2");
}
