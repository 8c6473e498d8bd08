#include "hgtrain/wire/control.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/messages.h"

#include "fake_agent.h"

using namespace hgt;
using namespace std::chrono_literals;

TEST_CASE("a worker says hello with rank and key, and takes both out of its environment") {
  FakeAgent agent;
  const auto channel = ControlChannel::open({});
  const Hello hello = decode_hello(agent.expect(MessageKind::kHello).payload);
  CHECK(hello.rank == 3);
  CHECK(hello.pid == getpid());
  CHECK(hello.key.matches(agent.key));
  CHECK(std::getenv("HGTRAIN_JOB_KEY") == nullptr);
  CHECK(std::getenv("HGTRAIN_CONTROL_FD") == nullptr);
}

TEST_CASE("a worker without a launcher has a store of its own") {
  unsetenv("HGTRAIN_CONTROL_FD");
  const auto channel = ControlChannel::open({});
  channel->set("k", "v");
  CHECK(channel->get("k", 0ms) == "v");
  channel->send("done", {});
  channel->flush();
}

TEST_CASE("half an environment is refused") {
  setenv("HGTRAIN_JOB_KEY", JobKey::random().hex().c_str(), 1);
  setenv("RANK", "0", 1);
  setenv("HGTRAIN_CONTROL_FD", GENERATE("x", "-1", "", "3x", "987654", "2"), 1);
  CHECK_THROWS_AS(ControlChannel::open({}), Error);
  unsetenv("HGTRAIN_CONTROL_FD");
}

TEST_CASE("a shared text is the last one written, and a long one is cut") {
  SharedText text;
  CHECK(text.get() == "");
  text = "B123.4567";
  text = "F0.2";
  CHECK(text.get() == "F0.2");
  text = "";
  CHECK(text.get() == "");
  text = std::string(100, 'x');
  CHECK(text.get() == std::string(SharedText::kMaxBytes, 'x'));
}
