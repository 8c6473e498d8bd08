#include "hgtrain/wire/requests.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a request comes back as it was written") {
  const auto train = decode_request<TrainRequest>(encode_request(
      TrainRequest{"runs/a b", "runs/a b/resolved.json", "auto", 10, "runs/a b/mark"}));
  CHECK(train.run_dir == "runs/a b");
  CHECK(train.config == "runs/a b/resolved.json");
  CHECK(train.resume == "auto");
  CHECK(train.record_steps == 10);
  CHECK(train.mark == "runs/a b/mark");

  GenerateRequest asked;
  asked.prompt = "größer \"quoted\"\n日本語";
  asked.temperature = 0.1;
  asked.top_p = 1.0 / 3;
  asked.seed = ~0ull;
  const auto generate = decode_request<GenerateRequest>(encode_request(asked));
  CHECK(generate.prompt == asked.prompt);
  CHECK(generate.temperature == asked.temperature);
  CHECK(generate.top_p == asked.top_p);
  CHECK(generate.seed == asked.seed);

  const auto stages =
      decode_request<BenchLayoutsRequest>(encode_request(BenchLayoutsRequest{"[{}]", 30, true}));
  CHECK((stages.configs == "[{}]" && stages.steps == 30 && stages.json));

  BenchCommRequest measured;
  measured.device = "cuda";
  measured.oversubscribe = measured.json = true;
  const auto comm = decode_request<BenchCommRequest>(encode_request(measured));
  CHECK((comm.device == "cuda" && comm.oversubscribe && comm.json));
}

TEST_CASE("a path that is not UTF-8 comes back as it was written") {
  TrainRequest request;
  request.run_dir = "runs/\xff\xc3";
  CHECK(decode_request<TrainRequest>(encode_request(request)).run_dir == request.run_dir);
}

TEST_CASE("a worker's command line is the program, the command and the request") {
  const auto argv = worker_argv("/bin/hgtrain-worker", EvalRequest{"ema", 12, "{}"});
  CHECK(argv == std::vector<std::string>{"/bin/hgtrain-worker", "eval",
                                         R"({"weights":"ema","samples":12,"config":"{}"})"});
}

TEST_CASE("a request that lacks a field, or is not JSON, is refused") {
  for (const char* text : {"", "{", "[]", "{}", R"({"weights": "ema", "config": "{}"})",
                           R"({"weights": "ema", "samples": "x", "config": "{}"})",
                           R"({"weights": {}, "samples": 1, "config": "{}"})"}) {
    CAPTURE(text);
    try {
      decode_request<EvalRequest>(text);
      FAIL("was taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kConfig);
      CHECK_THAT(error.message(), Catch::StartsWith("hgtrain-worker eval: "));
    }
  }
}
