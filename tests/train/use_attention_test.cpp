#include "hgtrain/train/use_attention.h"

#include <functional>

#include <catch2/catch.hpp>

#include "hgtrain/arch/gpu_scratch.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "support/fake_cuda.h"
#include "support/roots.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

CudnnOptions g_asked;

/// What use_attention says of a job in bf16 after `change`, on a GPU for which cuDNN 9.19.0 is
/// installed: the library of the machine module's tests.
std::string said(Config& config, const std::function<void(Config&)>& change) {
  CudaOpsTable ops{};
  ops.use_cudnn = [](void*, const CudnnOptions* options, CudaStreamState*,
                     std::size_t* version) -> CudaResult {
    g_asked = *options;
    *version = 91900;
    return nullptr;
  };
  const CudaTables tables{0, "fake", &fake_cuda::device_table(), &ops, nullptr};
  const CudaModule module(tables, {build_root() + "/tests/machine"});
  config = tiny_config();
  config.hardware.device = "cuda";
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 2, .micro_batch_size = 2, .gradient_accumulation_steps = 1};
  config.precision.bf16 = true;
  change(config);
  g_asked = {.part_bytes = 0};
  return use_attention(config, CudaQueue(Device::cuda(0), module));
}

}  // namespace

TEST_CASE("attention is cuDNN's, as the config asks and within the plan's memory", "[cudnn]") {
  Config config;
  CHECK(said(config, [](Config&) {}) == "attention backend: cuDNN 9.19.0");
  CHECK(g_asked.part_bytes == gpu_scratch(config).attention_part_bytes);
  CHECK(g_asked.deterministic);
  CHECK(said(config, [](Config& job) {
          job.hardware.gpu_bytes = std::int64_t{1} << 40;
          job.hardware.cudnn_deterministic = false;
        }) == "attention backend: cuDNN 9.19.0");
  CHECK(g_asked.part_bytes == gpu_scratch(config).attention_part_bytes);
  CHECK_FALSE(g_asked.deterministic);
}

TEST_CASE("what keeps attention from cuDNN is said") {
  const auto own = [](const std::function<void(Config&)>& change) {
    Config config;
    const std::string text = said(config, change);
    CHECK(g_asked.part_bytes == 0);  // cuDNN was not asked
    return text;
  };
  CHECK(own([](Config& job) { job.parallelism.context_parallel_size = 2; }) ==
        "attention backend: own kernels (context ranks have parts of the sequences)");
  CHECK(own([](Config& job) { job.hardware.cudnn = false; }) ==
        "attention backend: own kernels (hardware.cudnn is false)");
  CHECK(own([](Config& job) { job.precision.bf16 = false; }) ==
        "attention backend: own kernels (cuDNN's is for 16 bits)");
  CHECK(own([](Config& job) { job.model.attn_pdrop = 0.1; }) ==
        "attention backend: own kernels (attention has dropout)");
  CHECK(own([](Config& job) { job.data.separate_documents = true; }) ==
        "attention backend: own kernels (samples have documents of their own)");
}
