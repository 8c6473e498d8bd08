#include <future>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/control.h"
#include "hgtrain/wire/messages.h"

#include "fake_agent.h"

using namespace hgt;
using namespace std::chrono_literals;

TEST_CASE("heartbeats have step, phase, action and collective, and what the rank waits for") {
  FakeAgent agent;
  const auto channel = ControlChannel::open({});
  agent.expect(MessageKind::kHeartbeat);
  channel->progress().step = 41;
  channel->progress().begun = 42;
  channel->progress().phase = "backward";
  channel->progress().action = "B123.4567";
  channel->progress().collective = 812;
  const auto next = [&](std::string_view phase) {
    Heartbeat beat;
    do beat = decode_heartbeat(agent.expect(MessageKind::kHeartbeat).payload);
    while (beat.phase != phase);
    return beat;
  };
  const Heartbeat computing = next("backward");
  CHECK((computing.step == 41 && computing.begun == 42 && computing.collective == 812));
  CHECK((computing.action == "B123.4567" && computing.waits_in.empty()));

  channel->progress().wait("tensor", 17, [&] {
    channel->progress().phase = "waiting";
    const Heartbeat waiting = next("waiting");
    CHECK((waiting.waits_in == "tensor" && waiting.waits_for == 17));
  });
  channel->progress().phase = "forward";
  CHECK(next("forward").waits_in.empty());
}

TEST_CASE("the store travels over the channel") {
  FakeAgent agent;
  const auto channel = ControlChannel::open({});
  channel->set("k", "v");
  CHECK(decode_store_set(agent.expect(MessageKind::kStoreSet).payload).value == "v");

  auto value = std::async(std::launch::async, [&] { return channel->get("other", 10s); });
  const StoreGet get = decode_store_get(agent.expect(MessageKind::kStoreGet).payload);
  CHECK(get.key == "other");
  agent.write(encode(StoreValue{get.id + 17, "an answer nobody waits for"}));
  agent.write(encode(StoreValue{get.id, "here"}));
  CHECK(value.get() == "here");
  CHECK_THROWS_WITH(channel->get("never", 1ms), Catch::Contains("'never'"));
}

TEST_CASE("commands arrive, and abort ends the store's waits") {
  FakeAgent agent;
  std::promise<void> stop, checkpoint, stacks;
  std::promise<std::string> abort;
  const auto channel = ControlChannel::open({[&] { stop.set_value(); },
                                             [&] { checkpoint.set_value(); },
                                             [&](const std::string& r) { abort.set_value(r); },
                                             {},
                                             [&] { stacks.set_value(); }});
  auto value = std::async(std::launch::async, [&] { return channel->get("x", 10s); });
  agent.write(encode_frame(MessageKind::kStop, "") + encode_frame(MessageKind::kCheckpoint, ""));
  stop.get_future().get();
  checkpoint.get_future().get();
  agent.write(encode_frame(MessageKind::kShowStacks, "") + encode_abort("rank 2 failed"));
  stacks.get_future().get();
  CHECK(abort.get_future().get() == "rank 2 failed");
  CHECK_THROWS_WITH(value.get(), Catch::Contains("rank 2 failed"));
}

TEST_CASE(
    "a launcher that is gone, reads nothing, or sends nonsense, ends the waits and calls lost") {
  FakeAgent agent;
  std::promise<void> lost;
  const auto channel = ControlChannel::open({{}, {}, {}, [&] { lost.set_value(); }, {}});
  auto value = std::async(std::launch::async, [&] { return channel->get("x", 10s); });
  agent.expect(MessageKind::kStoreGet);
  SECTION("gone") {
    agent.hang_up();
  }
  SECTION("deaf") {
    agent.stop_reading();
  }
  SECTION("nonsense") {
    agent.write("\xff\xff\xff\xff\xff");
  }
  SECTION("a worker's message") {
    agent.write(encode_event("done", nlohmann::json::object()));
  }
  CHECK_THROWS_AS(value.get(), Error);
  lost.get_future().get();
  channel->send("done", {});  // goes nowhere, and does not block
  channel->flush();
}

TEST_CASE("everything sent arrives, in order, before flush returns or the channel closes") {
  FakeAgent agent;
  {
    const auto channel = ControlChannel::open({});
    channel->send("metrics", {{"step", 1}});
    channel->flush();
    channel->send("done", nlohmann::json::object());
  }
  nlohmann::json body;
  CHECK(decode_event(agent.expect(MessageKind::kEvent).payload, body) == "metrics");
  CHECK(decode_event(agent.expect(MessageKind::kEvent).payload, body) == "done");
}
