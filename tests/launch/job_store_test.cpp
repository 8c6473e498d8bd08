#include "job_store.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("every reader gets the value, at once or when it is set") {
  JobStore store;
  std::vector<std::string> got;
  const auto reply = [&](const std::string& value) { got.push_back(value); };
  store.get("k", reply);
  store.get("k", reply);
  CHECK(got.empty());
  store.set("other", "x");
  CHECK(got.empty());
  store.set("k", "v");
  CHECK(got == std::vector<std::string>{"v", "v"});
  store.get("k", reply);
  CHECK(got.size() == 3);
}

TEST_CASE("a job cannot make the launcher hold more than a bound") {
  JobStore store(100);
  store.set("key", std::string(90, 'x'));
  store.set("k", "v");
  CHECK_THROWS_AS(store.set("key", "value"), Error);
  CHECK_THROWS_AS(store.set("", std::string(1000, 'x')), Error);
}

TEST_CASE("a key is written once") {
  JobStore store;
  store.set("k", "v");
  CHECK_NOTHROW(store.set("k", "v"));
  CHECK_THROWS_AS(store.set("k", "w"), Error);
}

TEST_CASE("a copy reports upstream what is set here and what is missing, each once") {
  std::vector<std::string> sent;
  JobStore store(JobStore::kMaxBytes, {[&](const std::string& key, const std::string& value) {
                                         sent.push_back(key + "=" + value);
                                       },
                                       [&](const std::string& key) { sent.push_back(key + "?"); }});
  std::vector<std::string> got;
  const auto reply = [&](const std::string& value) { got.push_back(value); };
  store.get("far", reply);
  store.get("far", reply);
  store.set("near", "n");
  store.get("near", reply);
  store.put("far", "f");
  CHECK(sent == std::vector<std::string>{"far?", "near=n"});
  CHECK(got == std::vector<std::string>{"n", "f", "f"});
}
