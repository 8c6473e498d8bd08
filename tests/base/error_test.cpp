#include "hgtrain/base/error.h"

#include <catch2/catch.hpp>

using hgt::Error;
using hgt::ErrorKind;

TEST_CASE("an error renders what, where and how to fix it") {
  Error e(ErrorKind::kConfig, "tensor_parallel_size = 3 does not divide num_attention_heads = 16",
          "use 1, 2, 4, 8 or 16");
  e.in("configs/gpt2-124m.json at /parallelism/tensor_parallel_size");
  CHECK(e.exit_code() == 2);
  CHECK(e.render() ==
        "hgtrain: error: tensor_parallel_size = 3 does not divide num_attention_heads = 16\n"
        "  in configs/gpt2-124m.json at /parallelism/tensor_parallel_size\n"
        "  hint: use 1, 2, 4, 8 or 16\n");
}

TEST_CASE("an error can be on a host, too") {
  CHECK(Error(ErrorKind::kConfig, "one").in("host b").text() == "one\n  on host b");
}

TEST_CASE("an internal error asks for a report") {
  CHECK(Error(ErrorKind::kInternal, "x").render().find("report") != std::string::npos);
}

TEST_CASE("several errors are printed one after the other, then the notes") {
  Error e(ErrorKind::kConfig, "one");
  e.note("a cause");
  e.also(Error(ErrorKind::kConfig, "two", "try three"));
  CHECK(e.render() ==
        "hgtrain: error: one\nhgtrain: error: two\n  hint: try three\nhgtrain: note: a cause\n");
}
