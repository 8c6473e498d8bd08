#include "failure.h"

#include <csignal>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/wire/messages.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("how a process ended, in words and as an exit code") {
  const WorkerEnd exited{7 << 8, 0, 1};
  CHECK(exit_code_of(exited) == 7);
  CHECK(reason_of(exited, false) == "exited with code 7");
  const WorkerEnd killed{SIGKILL, 3 << 20, 1};
  CHECK(exit_code_of(killed) == 137);
  CHECK(reason_of(killed, false) == "was killed by SIGKILL (Killed)");
  CHECK(reason_of(killed, true) ==
        "was killed by SIGKILL (Killed): the kernel ran out of memory; it had used 3.0 GiB");
  CHECK(reason_of({SIGABRT | 0x80, 0, 1}, false) == "was killed by SIGABRT (Aborted), core dumped");
  CHECK(reason_of({SIGRTMIN + 1, 0, 1}, false).find("was killed by signal") == 0);
}

TEST_CASE("a SIGKILL from outside gets a hint at the memory, also as the code of a shell") {
  const WorkerEnd killed{SIGKILL, 0, 1};
  CHECK(hint_of(killed, false).starts_with("most often the memory ran out"));
  CHECK(hint_of(killed, true) == "fewer workers or a smaller micro-batch need less");
  CHECK(hint_of({137 << 8, 0, 1}, false) == hint_of(killed, false));
  CHECK(hint_of({SIGTERM, 0, 1}, false) == "");
  CHECK(hint_of({9 << 8, 0, 1}, false) == "");
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

TEST_CASE("of two hosts whose clocks are known badly, either may have failed first") {
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
  CHECK(permanent(ErrorKind::kGuard));
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
