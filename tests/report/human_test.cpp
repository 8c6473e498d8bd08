#include "hgtrain/report/human.h"

#include <cmath>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("counts have three significant digits and a unit") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(7) == "7");
  CHECK(human_count(12.34) == "12.3");
  CHECK(human_count(999) == "999");
  CHECK(human_count(999.9) == "1.00k");
  CHECK(human_count(12345) == "12.3k");
  CHECK(human_count(124e6) == "124M");
  CHECK(human_count(999.6e3) == "1.00M");
  CHECK(human_count(1.5582e9) == "1.56G");
  CHECK(human_count(-12345) == "-12.3k");
  CHECK(human_count(999.4e18) == "999E");
  CHECK(human_count(1.5e21) == "1.50e+21");
  CHECK(human_count(NAN) == "-");
  CHECK(human_rate(14390, "B/s") == "14.4 kB/s");
  CHECK(human_rate(7.24e14, "FLOP/s") == "724 TFLOP/s");
  CHECK(human_rate(2, "B/s") == "2.00 B/s");
}

TEST_CASE("bytes are in powers of 1024") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(512LL << 20) == "512 MiB");
  CHECK(human_bytes(INT64_MAX) == "8.00 EiB");
}

TEST_CASE("amounts that differ do not read alike") {
  using Texts = std::pair<std::string, std::string>;
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  CHECK(human_bytes(80 * kGiB, 79 * kGiB) == Texts("80.0 GiB", "79.0 GiB"));
  CHECK(human_bytes(80 * kGiB, 80 * kGiB) == Texts("80.0 GiB", "80.0 GiB"));
  CHECK(human_bytes(80 * kGiB + kGiB / 64, 80 * kGiB) == Texts("80.02 GiB", "80.00 GiB"));
  CHECK(human_bytes(kGiB + 1, kGiB) == Texts("1.000000001 GiB", "1.000000000 GiB"));
  const auto [most, less] = human_bytes(INT64_MAX, INT64_MAX - 1);
  CHECK(most == less);
}

TEST_CASE("durations read as clocks do") {
  CHECK(human_duration(0) == "0:00");
  CHECK(human_duration(59.6) == "1:00");
  CHECK(human_duration(92) == "1:32");
  CHECK(human_duration(7384) == "2:03:04");
  CHECK(human_duration(3 * 86400 + 7384) == "3d 02:03:04");
  CHECK(human_duration(-1) == "-");
  CHECK(human_duration(INFINITY) == "-");
}

TEST_CASE("numbers keep their decimals unless they are many digits or none") {
  CHECK(human_number(2.41372, 4) == "2.4137");
  CHECK(human_number(14390, 2) == "14390.00");
  CHECK(human_number(-3.25e8, 2) == "-3.25e+08");
  CHECK(human_number(3.2e30, 2) == "3.20e+30");
  CHECK(human_number(-NAN, 4) == "nan");
  CHECK(human_number(INFINITY, 4) == "inf");
}

TEST_CASE("one has no plural") {
  CHECK(human_plural(1, "step") == "1 step");
  CHECK(human_plural(0, "step") == "0 steps");
}
