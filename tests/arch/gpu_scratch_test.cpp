#include "hgtrain/arch/gpu_scratch.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"

#include "models.h"

using namespace hgt;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Config job(const ModelConfig& model, std::int64_t micro_batch, std::int64_t seq_length,
           std::int64_t gpu_bytes) {
  Config config;
  config.model = model;
  config.hardware.device = "cuda";
  config.hardware.gpu_bytes = gpu_bytes;
  config.precision.bf16 = true;
  config.batch = {micro_batch, micro_batch, 1};
  config.training.seq_length = seq_length;
  return config;
}

}  // namespace

TEST_CASE("a large GPU computes some GiB of logits at a time, in equal chunks") {
  const Config config = job(gpt2_124m(), 64, 1024, 139 * kGiB);
  const GpuScratch scratch = gpu_scratch(config);
  CHECK(scratch.logit_rows == 16384);  // of 65536
  CHECK(planned_logit_rows(config) == scratch.logit_rows);
  CHECK(scratch.attention_part_bytes == 2 * kGiB);
  CHECK(gpu_scratch(job(gpt2_124m(), 5, 1000, 139 * kGiB)).logit_rows == 5000);  // all at once
}

TEST_CASE("a CPU's chunks of logits do not depend on a GPU's memory") {
  Config config = job(gpt2_124m(), 64, 1024, 139 * kGiB);
  config.hardware.device = "cpu";
  CHECK(planned_logit_rows(config) == 0);
}

TEST_CASE("scratch memory is as small as possible if nothing is left or the GPU is not known") {
  for (const std::int64_t gpu : {std::int64_t{0}, kGiB}) {
    const GpuScratch scratch = gpu_scratch(job(gpt2_124m(), 64, 1024, gpu));
    CHECK(scratch.logit_rows == 384);  // 16 Mi logits, of a multiple of 128 rows
    CHECK(scratch.attention_part_bytes == cuda::kAttentionPartBytes);
  }
}

TEST_CASE("what fits with the smallest scratch memory fits with the planned one") {
  for (const std::int64_t micro_batch : {1, 3, 8, 64})
    for (std::int64_t gpu = kGiB; gpu <= 160 * kGiB; gpu += 3 * kGiB / 2) {
      const Config config = job(gpt2_124m(), micro_batch, 1024, gpu);
      Config smallest = config;
      smallest.hardware.gpu_bytes = 0;
      CAPTURE(micro_batch, gpu);
      CHECK(bytes_of(config) >= bytes_of(smallest));
      if (bytes_of(smallest) <= gpu) CHECK(bytes_of(config) <= gpu);
    }
}

TEST_CASE("tensor ranks' chunks have as many logits of their part of the vocabulary") {
  Config config = job(gpt2_124m(), 64, 1024, 139 * kGiB);
  config.parallelism.tensor_parallel_size = 4;
  CHECK(gpu_scratch(config).logit_rows == 65536);
}
