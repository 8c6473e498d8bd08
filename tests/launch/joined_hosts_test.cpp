#include "joined_hosts.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace hgt;
using Return = JoinedHosts::Return;

namespace {

void start(JoinedHosts& joined, const std::vector<std::string>& hosts, const std::string& from) {
  joined.begin(hosts);
  joined.hear("started", {{"step", 1}, {"from", from}});
}

void save(JoinedHosts& joined, const std::string& path) {
  joined.hear("checkpoint", {{"step", 1}, {"path", path}});
}

}  // namespace

TEST_CASE(
    "an attempt that was made to let hosts join is made for those that were not in the last one") {
  JoinedHosts joined;
  start(joined, {"a", "b"}, "");
  CHECK(joined.joining({"a", "b"}).empty());
  joined.forget_why();
  start(joined, {"a"}, "");
  joined.let_others_join();
  start(joined, {"a", "b", "c"}, "one");
  CHECK(joined.joining({"a", "b", "c"}) == std::vector<std::string>{"b", "c"});
  CHECK_FALSE(joined.has_saved());
  save(joined, "two");
  CHECK(joined.has_saved());
  joined.begin({"a", "c"});
  CHECK(joined.joining({"a", "c"}) == std::vector<std::string>{"c"});
  CHECK_FALSE(joined.has_saved());
  joined.forget_why();
  CHECK(joined.joining({"a", "c"}).empty());
}

TEST_CASE("a job goes back to the checkpoint at which a host with other data has joined") {
  JoinedHosts joined;
  start(joined, {"a", "b"}, "old");
  joined.hear("data_differ", {});
  CHECK_FALSE(joined.before_other_data("b"));  // it may be the one with the right data
  joined.lose("b");
  start(joined, {"a"}, "one");
  save(joined, "two");
  start(joined, {"a", "b"}, "two");
  CHECK_FALSE(joined.before_other_data("b"));  // they do not differ
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"b", ""});  // nothing was saved with it
  save(joined, "three");
  CHECK(joined.before_other_data("b") == Return{"b", "two"});
  CHECK(joined.needed_checkpoints() == std::set<std::string>{"two"});
  start(joined, {"a", "b"}, "three");  // a rank has failed
  save(joined, "four");
  CHECK(joined.needed_checkpoints() == std::set<std::string>{"two"});
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"b", "two"});
  CHECK_FALSE(joined.before_other_data("a"));
  joined.begin({"a", "c"});
  joined.hear("data_differ", {});  // found before the first step
  CHECK(joined.before_other_data("c") == Return{"c", ""});
}

TEST_CASE("a host is new again if it was lost, or if an attempt did without it") {
  JoinedHosts joined;
  start(joined, {"a", "b"}, "");
  joined.lose("b");
  start(joined, {"a", "b"}, "one");
  save(joined, "two");
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"b", "one"});
  start(joined, {"a"}, "one");
  start(joined, {"a", "b"}, "two");
  save(joined, "three");
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"b", "two"});
}

TEST_CASE("of two hosts whose data differ, the one that has joined later is left out") {
  JoinedHosts joined;
  start(joined, {"a"}, "");
  start(joined, {"a", "b"}, "one");
  start(joined, {"b"}, "two");
  start(joined, {"a", "b"}, "three");
  save(joined, "four");
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"a", "three"});
  start(joined, {"b", "c"}, "three");
  save(joined, "four");
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("c") == Return{"c", "three"});
}

TEST_CASE("a job does not begin again because of a host with other data") {
  JoinedHosts joined;
  start(joined, {"a"}, "");
  start(joined, {"a", "b"}, "");
  joined.hear("data_differ", {});
  CHECK(joined.before_other_data("b") == Return{"b", ""});
  save(joined, "one");
  CHECK_FALSE(joined.before_other_data("b"));
}
