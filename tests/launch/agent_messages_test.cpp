#include "agent_messages.h"

#include <catch2/catch.hpp>

#include "payload.h"

using namespace hgt;

namespace {

template <class Message>
void check_copy(const Message& message) {
  const auto copy = decode_payload<Message>(encode_payload(message));
  CHECK((Message::fields(copy) == Message::fields(message)));
}

}  // namespace

TEST_CASE("every field of a message arrives, whatever bytes it holds") {
  Spawn order;
  order.attempt = 3;
  order.argv = {"prog", "", "a\xff\0b", "--x"};
  order.env = {{"A", "b\nc"}, {"EMPTY", ""}};
  order.run_id = "r";
  order.world_size = 4;
  order.first_rank = 2;
  order.num_ranks = 2;
  order.master_port = 29500;
  order.own_workers = true;
  check_copy(order);
  check_copy(RankHeartbeat{7, 1, {41, 99, "forward", 5, "F0.2", "tp", 12, 42}});
  check_copy(Ended{0, 1, 139, 1 << 20, -5, true, false, true});
}

TEST_CASE("a payload that is cut, too long or no message at all is an error") {
  const std::string whole = encode_payload(Gone{0, 1, {"one", "two"}, "message", ""});
  CHECK_NOTHROW(decode_payload<Gone>(whole));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    CHECK_THROWS_AS(decode_payload<Gone>(whole.substr(0, bytes)), Error);
  CHECK_THROWS_AS(decode_payload<Gone>(whole + "x"), Error);
  CHECK_THROWS_AS(decode_payload<Notice>(std::string("\xff\xff\xff\xff text", 9)), Error);
  std::string ended = encode_payload(Ended{});
  ended.back() = 2;  // no bool
  CHECK_THROWS_AS(decode_payload<Ended>(ended), Error);
}

TEST_CASE("an error survives the way through a message, and one of an unknown kind is refused") {
  Error error(ErrorKind::kDevice, "no process", "use fewer");
  error.in("rank 3");
  const Error copy = error_in(decode_payload<NotSpawned>(encode_payload(not_spawned(2, error))));
  CHECK(copy.kind() == ErrorKind::kDevice);
  CHECK(copy.message() == "no process");
  CHECK(copy.hint() == "use fewer");
  CHECK(copy.context() == std::vector<std::string>{"rank 3"});
  for (const int kind : {0, 7, -1})
    CHECK_THROWS_AS(error_in(NotSpawned{0, kind, "", "", {}}), Error);
}
