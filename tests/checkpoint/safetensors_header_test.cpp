#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/checkpoint/safetensors.h"

using namespace hgt;

TEST_CASE("a damaged header is refused, with what is wrong") {
  const auto message = [](const std::string& json, std::int64_t data_bytes) -> std::string {
    try {
      parse_safetensors_header(json, data_bytes);
    } catch (const Error& e) {
      return e.message();
    }
    return "accepted";
  };
  const auto tensor = [](const char* name, const char* shape, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})", name, shape,
                       begin, end);
  };
  const auto object = [](const std::string& inside) { return fmt::format("{{{}}}", inside); };
  const auto one = tensor("a", "[2]", 0, 8);
  CHECK(message(object(one) + "  ", 8) == "accepted");
  CHECK(message("{}", 0) == "accepted");
  CHECK(message(R"({"__metadata__":{"format":"pt"}})", 0) == "accepted");

  using Catch::Contains;
  CHECK_THAT(message(object(one + "," + one), 8), Contains("\"a\" is there twice"));
  CHECK_THAT(message(object(one + "," + tensor("b", "[1]", 12, 16)), 16), Contains("not at 8"));
  CHECK_THAT(message(object(one + "," + tensor("b", "[1]", 4, 8)), 8), Contains("not at 8"));
  CHECK_THAT(message(object(one), 12), Contains("take 8 bytes, the file has 12"));
  CHECK_THAT(message(object(one), 4), Contains("take 8 bytes, the file has 4"));
  CHECK_THAT(message(object(tensor("a", "[3]", 0, 8)), 8),
             Contains("does not take the bytes 0 to 8"));
  CHECK_THAT(message(object(tensor("a", "[2]", 8, 0)), 8), Contains("does not take"));
  CHECK_THAT(message(object(tensor("a", "[4294967296,4294967296,4]", 0, 8)), 8),
             Contains("overflows"));
  CHECK_THAT(message(object(tensor("a", "[18446744073709551615]", 0, 8)), 8),
             Contains("does not fit into 64 bits"));
  CHECK_THAT(message(object(tensor("a", "[-1]", 0, 8)), 8), Contains("negative"));
  CHECK_THAT(message(object(tensor("a", "[2.5]", 0, 8)), 8), Contains("fraction"));
  CHECK_THAT(message(object(tensor("a", "[[2]]", 0, 8)), 8), Contains("damaged"));
  CHECK_THAT(message(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8),
             Contains("unknown dtype \"F31\""));
  CHECK_THAT(message(R"({"a":{"dtype":"F32","shape":[2]}})", 8), Contains("lacks"));
  CHECK_THAT(message(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
             Contains("\"dtype\" twice"));
  CHECK_THAT(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8),
             Contains("offsets"));
  CHECK_THAT(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8),
             Contains("damaged"));
  CHECK_THAT(message(R"({"a":{"b":{}}})", 8), Contains("an object inside"));
  CHECK_THAT(message(object(one).substr(0, 20), 8), Contains("no JSON at byte"));
  CHECK_THAT(message("[]", 8), Contains("damaged"));
  CHECK_THAT(message("3", 8), Contains("damaged"));
  CHECK_THAT(message("", 8), Contains("damaged"));
  CHECK_THAT(message("\"x\"", 8), Contains("damaged"));
  CHECK_THAT(message(std::string(100000, '['), 8), Contains("damaged"));
}
