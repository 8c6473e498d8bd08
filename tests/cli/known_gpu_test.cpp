#include "known_gpu.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a GPU is named by its kind, as people write it, or by its memory") {
  constexpr double kGiB = 1 << 30;
  const auto gib = [](const char* gpu) { return static_cast<double>(known_gpu(gpu).bytes) / kGiB; };
  CHECK(gib("H100") == Approx(79.1));
  CHECK(gib("H100 80GB") == Approx(79.1));
  CHECK(gib("a100-80GB") == Approx(79.14));
  CHECK(gib("RTX 4090") == Approx(23.64));
  CHECK(gib("4090") == Approx(23.64));
  CHECK(gib("NVIDIA A100-SXM4-80GB") == Approx(79.14));
  CHECK(gib("Tesla V100-SXM2-32GB") == Approx(31.73));
  CHECK(gib("NVIDIA RTX A6000") == Approx(47.4));
  CHECK(gib("24.5GB") == Approx(24.5 * 0.915));
  CHECK(gib("48GB") == Approx(48 * 0.915));
  CHECK(gib("12 GiB") == Approx(12 * 0.915));
  CHECK(gib("24576MiB") == Approx(24 * 0.915));
  CHECK(gib("RTX 3060") == Approx(11.76));
  CHECK(gib("NVIDIA GeForce RTX 3060 12GB") == Approx(11.76));
  CHECK(gib("rtx3060-8gb") == Approx(7.78));
  CHECK(gib("NVIDIA GeForce RTX 3060 Laptop GPU") == Approx(5.8));
  CHECK(gib("RTX 4060 Ti 16GB") == Approx(15.6));
  CHECK(gib("rtx 4070 ti super") == Approx(15.6));
  CHECK(gib("GeForce RTX 2080 Super with Max-Q Design") == Approx(7.79));
  CHECK(gib("RTX 4090 Mobile") == Approx(15.6));
  CHECK(gib("GTX 1080 Ti") == Approx(10.91));
  CHECK(gib("1660 super") == Approx(5.79));
  CHECK(gib("rtx5090") == Approx(31.36));
  CHECK(gib("NVIDIA RTX 6000 Ada Generation") == Approx(47.4));
  CHECK(gib("Quadro RTX 6000") == Approx(23.65));
  CHECK(gib("NVIDIA RTX PRO 6000 Blackwell Workstation Edition") == Approx(94.97));
  CHECK(known_gpu("gtx1080").compute_capability == 61);
  CHECK(known_gpu("rtx5070").compute_capability == 120);
  CHECK(known_gpu("T4").compute_capability == 75);
  CHECK(known_gpu("16GB").compute_capability == 0);
}

TEST_CASE("a name that is neither is refused, and the error lists the kinds") {
  for (const char* wrong : {"", "h1000", "rtx4090 48GB", "rtx3060-6gb", "0GB", "-3GB", "80",
                            "nanGB", "infGB", "80TB", "99999999999999999999GB"})
    CHECK_THROWS_AS(known_gpu(wrong), Error);
  try {
    known_gpu("MI300X");
  } catch (const Error& e) {
    CHECK(e.message() == "--gpu MI300X: hgtrain trains on NVIDIA GPUs only");
  }
  try {
    known_gpu("rtx4080ti");
  } catch (const Error& e) {
    CHECK(e.hint() == "did you mean rtx4080? Or give its memory, as 24GB");
  }
  try {
    known_gpu("80");
  } catch (const Error& e) {
    CHECK(e.hint() == "if that is its memory in GB: --gpu 80GB");
  }
  try {
    known_gpu("0GB");
  } catch (const Error& e) {
    CHECK(e.message() == "--gpu 0GB: no GPU has that much memory");
  }
  try {
    known_gpu("voodoo");
  } catch (const Error& e) {
    CHECK(e.hint().find("h200") != std::string::npos);
  }
}
