#include "hgtrain/wire/messages.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

using namespace hgt;

namespace {

std::string payload_of(const std::string& bytes, MessageKind kind) {
  FrameReader reader;
  reader.feed(bytes);
  const auto frame = reader.next();
  REQUIRE(frame);
  CHECK(frame->kind == kind);
  return frame->payload;
}

}  // namespace

TEST_CASE("messages come back as they were sent") {
  const JobKey key = JobKey::random();
  const Hello hello = decode_hello(payload_of(encode(Hello{3, 4711, 1, key}), MessageKind::kHello));
  CHECK((hello.rank == 3 && hello.pid == 4711 && hello.version == 1 && hello.key.matches(key)));

  const std::string binary("\0\xff\n", 3);
  const StoreSet set =
      decode_store_set(payload_of(encode(StoreSet{"a/b", binary}), MessageKind::kStoreSet));
  CHECK((set.key == "a/b" && set.value == binary));

  const StoreGet get =
      decode_store_get(payload_of(encode(StoreGet{7, "k"}), MessageKind::kStoreGet));
  CHECK((get.id == 7 && get.key == "k"));

  const StoreValue value =
      decode_store_value(payload_of(encode(StoreValue{~0ull, binary}), MessageKind::kStoreValue));
  CHECK((value.id == ~0ull && value.value == binary));

  const Heartbeat beat = decode_heartbeat(
      payload_of(encode(Heartbeat{12, 99, std::string(100, 'p'), 7, "B3.0", "tensor", 4, 13}),
                 MessageKind::kHeartbeat));
  CHECK((beat.step == 12 && beat.collective == 99 && beat.phase == std::string(64, 'p') &&
         beat.work == 7));
  CHECK((beat.action == "B3.0" && beat.waits_in == "tensor" && beat.waits_for == 4 &&
         beat.begun == 13));

  nlohmann::json body;
  const std::string kind =
      decode_event(payload_of(encode_event("metrics", {{"loss", 2.5}}), MessageKind::kEvent), body);
  CHECK((kind == "metrics" && body["loss"] == 2.5));
}

TEST_CASE("an error travels with kind, hint and context") {
  Error error(ErrorKind::kData, "bad file", "delete it");
  error.in("a").in("b");
  const Error back = error_in(failed_body(error));
  CHECK(back.render() == error.render());
  CHECK(back.kind() == ErrorKind::kData);
  for (const char* text : {"{}", R"({"kind": 7, "message": "", "hint": "", "context": []})",
                           R"({"kind": 1, "message": "", "hint": "", "context": [1]})",
                           R"({"kind": 1, "message": 2, "hint": "", "context": []})"})
    CHECK_THROWS_AS(error_in(parse_json<nlohmann::json>(text)), Error);
}

TEST_CASE("an event with text that is not UTF-8 still gets through") {
  nlohmann::json body;
  decode_event(
      payload_of(encode_event("failed", {{"message", "no file a\xff"}}), MessageKind::kEvent),
      body);
  CHECK(body["message"].get<std::string>().substr(0, 9) == "no file a");
}

TEST_CASE("a heartbeat with a wrong field is refused") {
  const nlohmann::json right = nlohmann::json::parse(payload_of(
      encode(Heartbeat{1, 2, "data", 3, "F0", "tensor", 4, 5}), MessageKind::kHeartbeat));
  const std::vector<nlohmann::json> no_numbers{-1, 1.5, ~0ull, "1", nullptr}, no_texts{3, nullptr};
  for (const auto& [name, value] : right.items())
    for (const nlohmann::json& other : value.is_number() ? no_numbers : no_texts) {
      nlohmann::json wrong = right;
      wrong[name] = other;
      CHECK_THROWS_WITH(decode_heartbeat(wrong.dump()), Catch::EndsWith(": " + name));
    }
}

TEST_CASE("malformed payloads are refused") {
  CHECK_THROWS_AS(decode_store_set("ab"), Error);
  CHECK_THROWS_AS(decode_store_set(std::string("\x05\0\0\0key", 7)), Error);
  CHECK_THROWS_AS(decode_store_get("1234567"), Error);
  CHECK_THROWS_AS(decode_store_value(""), Error);
  nlohmann::json body;
  for (const char* text : {"", "[]", "{", "{}", R"({"kind": 1, "body": {}})", R"({"kind": "x"})",
                           R"({"kind": "x", "body": 3})"})
    CHECK_THROWS_AS(decode_event(text, body), Error);
  for (const char* text : {"null", "{}"}) CHECK_THROWS_AS(decode_heartbeat(text), Error);
  for (const char* text : {"{}", R"({"rank": 4294967296, "pid": 1, "version": 1, "key": ""})",
                           R"({"rank": 0, "pid": 1, "version": 1, "key": null})"})
    CHECK_THROWS_AS(decode_hello(text), Error);
}
