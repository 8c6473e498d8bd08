#include "hgtrain/arch/memory.h"

#include <map>

#include <catch2/catch.hpp>

#include "hgtrain/arch/activations.h"
#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"
#include "hgtrain/parallel/shards.h"

#include "cuda/attention_cudnn.h"
#include "models.h"

using namespace hgt;

using Catch::EndsWith;
using Catch::StartsWith;

namespace {

std::int64_t bytes_of(const Config& config, int threads, const std::string& name) {
  for (const Allocation& a : memory_table(config, threads))
    if (a.name == name) return a.bytes;
  return -1;
}

Error refusal(const ModelConfig& model, DType dtype) {
  try {
    require_gpu_widths(model, dtype);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "it was not refused");
}

}  // namespace

TEST_CASE("the memory table counts all allocations of a step") {
  Config config;
  config.model = gpt2_124m();
  config.batch.micro_batch_size = 4;
  config.training.seq_length = 1024;
  const auto table = memory_table(config, 2);
  const auto bytes = [&](const std::string& name) {
    for (const Allocation& a : table)
      if (a.name == name) return a.bytes;
    return std::int64_t{-1};
  };
  const std::int64_t parameters = parameter_table(config.model, false).total;
  CHECK(bytes("parameters") == 4 * parameters);
  CHECK(bytes("optimizer: exp_avg_sq") == 4 * parameters);
  CHECK(bytes("checkpoint: copy") == 3 * 4 * parameters);
  CHECK(bytes("layers: qkv") == std::int64_t{4} * 12 * 4 * 1024 * 3 * 768);
  CHECK(bytes("layers: up") == std::int64_t{4} * 12 * 4 * 1024 * 3072);
  CHECK(bytes("activations: logits") == 4 * logit_rows(config.model, 4096) * 50257);
  CHECK(bytes("scratch of threads") == 2 * 4 * (5 * (1024 + 64) * 64 + 64 * 194));
  CHECK(bytes("layers: qk") == -1);
  CHECK(bytes("rope tables") == -1);
}

TEST_CASE("the scratch memory of threads is that of the kernel that needs the most") {
  Config config;
  config.model = gpt2_124m();
  config.batch.micro_batch_size = 1;
  const auto floats = [&](std::int64_t seq_length) {
    config.training.seq_length = seq_length;
    return bytes_of(config, 3, "scratch of threads") / 4;
  };
  CHECK(floats(1024) == 3 * cpu::attention_bwd_floats(1024, 64));
  CHECK(floats(8) == 3 * cpu::kPackedWideFloats);
  config.model.vocab_size = 256;
  config.model.intermediate_size = 768;
  // The largest product, that of queries, keys and values, is timed from 29 tokens on.
  CHECK(floats(28) ==
        cpu::kNormChunks * cpu::norm_sums(768, true) + 2 * cpu::attention_bwd_floats(28, 64));
  CHECK(floats(29) == 3 * cpu::kPackedWideFloats);
  config.precision.bf16 = true;
  CHECK(floats(8) == 3 * cpu::kPackedFloats);
  config.model.hidden_size = 8192;
  CHECK(floats(8) == cpu::kNormChunks * cpu::norm_sums(8192, true) + 2 * cpu::kPackedFloats);
}

TEST_CASE("the parts of cuDNN's attention stay within the planned memory") {
  struct Shape {
    bool backward;
    std::int64_t batch, length, heads, key_heads;
  };
  for (const Shape& s :
       {Shape{true, 1, 1000, 12, 12}, Shape{true, 64, 1024, 12, 12}, Shape{true, 11, 1024, 12, 12},
        Shape{true, 2, 4096, 32, 8}, Shape{true, 2, 32768, 32, 8}}) {
    Config config;
    config.model = gpt2_124m();
    config.model.num_attention_heads = s.heads;
    config.model.num_key_value_heads = s.key_heads;
    config.hardware.device = "cuda";
    config.precision.bf16 = true;
    config.batch.micro_batch_size = s.batch;
    config.training.seq_length = s.length;
    const cudnn::AttentionPart part = cudnn::attention_part(s, {});
    CAPTURE(s.batch, s.length);
    CHECK(part.samples * part.heads(s) * cuda::attention_head_bytes(s.length) <=
          bytes_of(config, 1, "scratch of matrix products and attention") -
              cuda::kProductWorkspaceBytes);
  }
}

TEST_CASE("a model that is too wide for the GPU's kernels is refused") {
  ModelConfig model = gpt2_124m();
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    model.hidden_size = cuda::kMaxRowBytes / static_cast<std::int64_t>(size_of(type));
    CHECK_NOTHROW(require_gpu_widths(model, type));
    ++model.hidden_size;
    const Error error = refusal(model, type);
    CHECK_THAT(error.message(), StartsWith("model.n_embd = ") && EndsWith(name_of(type).data()));
    CHECK(error.hint() == (type == DType::kF32
                               ? "set bf16.enabled, which allows up to 8192, or train on the CPU"
                               : "use a narrower model, or train on the CPU"));
  }
  model.hidden_size = 768;
  model.head_dim = cuda::kMaxHeadDim;
  CHECK_NOTHROW(require_gpu_widths(model, DType::kF32));
  ++model.head_dim;
  CHECK(refusal(model, DType::kF32).hint() == "use more heads (model.n_head), or train on the CPU");
}

TEST_CASE("on a GPU the memory table leaves room for CUDA's libraries, and for NCCL") {
  Config config;
  config.model = gpt2_124m();
  config.hardware.device = "cuda";
  config.training.seq_length = 1024;
  config.batch = {.train_batch_size = 16, .micro_batch_size = 4, .gradient_accumulation_steps = 4};
  const std::int64_t alone = total_bytes(memory_table(config, 1));
  CHECK(memory_table(config, 1).back().name == "CUDA: kernels of its libraries, graphs");
  config.batch.gradient_accumulation_steps = 2;  // two workers
  CHECK(memory_table(config, 1).back().name == "CUDA: NCCL");
  const std::int64_t joined = total_bytes(memory_table(config, 1));
  CHECK(joined == alone + (std::int64_t{1} << 30));
  config.distributed.backend = "gloo";
  CHECK(total_bytes(memory_table(config, 1)) == alone);
}

TEST_CASE("the memory table has each optimizer's state, and the moving average") {
  Config config;
  config.model = gpt2_124m();
  config.batch.micro_batch_size = 1;
  config.training.seq_length = 8;
  const auto flat_names = [&] {
    std::string names;
    for (const Allocation& a : memory_table(config, 1))
      if (a.name == "ema" || a.name.starts_with("optimizer: "))
        names += a.name + ";";
      else if (a.name == "checkpoint: copy")
        names += std::to_string(a.bytes / parameter_table(config.model, false).total / 4) + ";";
    return names;
  };
  const std::vector<std::pair<std::string, std::string>> expected{
      {"Lamb", "optimizer: exp_avg;optimizer: exp_avg_sq;3;"},
      {"Lion", "optimizer: exp_avg;2;"},
      {"Adagrad", "optimizer: sum;2;"},
      {"SGD", "1;"}};
  for (const auto& [type, names] : expected) {
    config.optimizer.type = type;
    CHECK(flat_names() == names);
  }
  config.optimizer.momentum = 0.9;
  config.training.ema_decay = 0.9;
  CHECK(flat_names() == "optimizer: momentum_buffer;ema;3;");
}

TEST_CASE("the memory table of a tensor rank has its part of each layer and of the logits") {
  Config config;
  config.model = llama3_8b();
  config.batch = {.train_batch_size = 2, .micro_batch_size = 2, .gradient_accumulation_steps = 1};
  config.training.seq_length = 64;
  const auto bytes = [&](const std::string& name, std::int64_t size) {
    config.parallelism.tensor_parallel_size = size;
    for (const Allocation& a : memory_table(config, 1))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  for (const char* cut : {"layers: qkv", "layers: up", "layers: lse", "activations: logits"})
    CHECK(bytes(cut, 8) * 8 == bytes(cut, 1));
  for (const char* whole : {"layers: norm1", "layers: output", "activations: embedded"})
    CHECK(bytes(whole, 8) == bytes(whole, 1));
  CHECK(bytes("parameters", 8) < bytes("parameters", 1) / 7);
  CHECK(bytes("activations: softmax_parts", 1) == 0);
  CHECK(bytes("activations: softmax_parts", 8) == 8 * 128 * 3 * 4);
  CHECK(bytes("gradients that tensor ranks sum", 8) == 0);
  CHECK(bytes("gradients that tensor ranks sum", 16) == 8 * 2 * 128 * 4096 * 4);
}

TEST_CASE("tensor ranks that split rows have a part of what each would have whole") {
  Config config;
  config.model = llama3_8b();
  config.batch = {.train_batch_size = 2, .micro_batch_size = 2, .gradient_accumulation_steps = 1};
  config.training.seq_length = 64;
  config.parallelism.tensor_parallel_size = 8;
  const auto table = [&](bool split) {
    config.parallelism.sequence_parallel = split;
    std::map<std::string, std::int64_t> bytes;
    for (const Allocation& a : memory_table(config, 1)) bytes[a.name] = a.bytes;
    return bytes;
  };
  auto all = table(false), split = table(true);
  for (const char* name :
       {"layers: norm1", "layers: norm1_scale", "layers: norm2", "layers: norm2_scale",
        "layers: after_attention", "layers: output", "activations: embedded",
        "activations: d_hidden", "activations: d_final_norm", "activations: final_scale"}) {
    CHECK(split[name] * 8 == all[name]);
    all.erase(name), split.erase(name);
  }
  CHECK(split["gradients that tensor ranks sum"] == 1 << 20);
  split.erase("gradients that tensor ranks sum");
  CHECK(split == all);

  const ActivationSizes sizes{
      .batch = 1, .seq_length = 10, .tensor_size = 4, .tensor_rank = 3, .split_rows = true};
  CHECK(sizes.own_rows() == Range{8, 10});
}

TEST_CASE("a stage of an interleaved pipeline holds micro-batches in each of its parts") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 8, .micro_batch_size = 1, .gradient_accumulation_steps = 8};
  config.training.seq_length = 1024;
  config.parallelism = {.pipeline_parallel_size = 2,
                        .pipeline_schedule = "interleaved",
                        .virtual_pipeline_stages = 2,
                        .pipeline_layer_split = {4, 3, 3, 2}};
  int threads = 1;
  const auto bytes = [&](const std::string& name, int stage) {
    for (const Allocation& a : memory_table(config, threads, stage))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  const std::int64_t row = std::int64_t{4} * 1024 * 768;
  // Stage 0 holds four micro-batches in its first part and two in its second, stage 1 three and
  // one.
  CHECK(bytes("layers: norm1", 0) == row * (4 * 4 + 3 * 2));
  CHECK(bytes("layers: norm1", 1) == row * (3 * 3 + 2 * 1));
  CHECK(bytes("activations: d_hidden", 0) == row * (4 + 2));
  CHECK(bytes("activations: d_hidden", 1) == row * (3 + 1));
  CHECK(bytes("activations: d_final_norm", 0) == 0);
  CHECK(bytes("activations: d_final_norm", 1) == row);
  CHECK(bytes("activations: branch", 0) == row);
  config.recompute = {"full", 9};  // of stage 1: three layers of the first part, none of the second
  CHECK(bytes("layers: norm1", 0) == row * (1 + 2 * 1));
  CHECK(bytes("layers: norm1", 1) == row * (1 + 2));
  // The head is in the last stage's last part.
  config.precision.bf16 = true;
  config.training.seq_length = 64;
  threads = 2;
  CHECK(bytes("logits in fp32, in oneDNN", 0) == 0);
  CHECK(bytes("logits in fp32, in oneDNN", 1) == std::int64_t{4} * 64 * 50257);
}

TEST_CASE("a stage without layers holds what it passes on, and nothing of the model") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 8, .micro_batch_size = 1, .gradient_accumulation_steps = 8};
  config.training.seq_length = 1024;
  config.parallelism = {.pipeline_parallel_size = 3, .pipeline_layer_split = {12, 0, 0}};
  const auto bytes = [&](const std::string& name) {
    for (const Allocation& a : memory_table(config, 1, 1))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  const std::int64_t row = std::int64_t{4} * 1024 * 768;
  CHECK(bytes("parameters") == 0);
  CHECK(bytes("gradients") == 0);
  CHECK(bytes("layers: qkv") == 0);
  CHECK(bytes("activations: branch") == 0);
  CHECK(bytes("activations: embedded") == 2 * row);
  CHECK(bytes("activations: d_hidden") == 2 * row);
  CHECK(bytes("layers: output") == 2 * row);
}

TEST_CASE("a stage of the embedding or the head alone holds no scratch of layers") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 8, .micro_batch_size = 1, .gradient_accumulation_steps = 8};
  config.training.seq_length = 1024;
  config.parallelism = {
      .pipeline_parallel_size = 3, .context_parallel_size = 2, .pipeline_layer_split = {0, 12, 0}};
  const auto bytes = [&](const std::string& name, int stage) {
    for (const Allocation& a : memory_table(config, 1, stage))
      if (a.name == "activations: " + name) return a.bytes;
    return std::int64_t{0};
  };
  for (const char* of_layers : {"d_norm", "d_attention", "d_qkv", "d_up", "keys_values"}) {
    CHECK(bytes(of_layers, 1) > 0);
    CHECK(bytes(of_layers, 0) == 0);
    CHECK(bytes(of_layers, 2) == 0);
  }
  CHECK(bytes("branch", 0) > 0);
  CHECK(bytes("branch", 2) == 0);
  CHECK(bytes("logits", 2) > 0);
}

TEST_CASE("a stage of ZB-H1 keeps for the weights' half what that reads") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 8, .micro_batch_size = 1, .gradient_accumulation_steps = 8};
  config.training.seq_length = 1024;
  config.parallelism = {.pipeline_parallel_size = 4,
                        .pipeline_schedule = "zb_h1",
                        .pipeline_layer_split = {3, 3, 3, 3}};
  const auto bytes = [&](const std::string& name, int stage) {
    for (const Allocation& a : memory_table(config, 1, stage))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  const std::int64_t row = std::int64_t{4} * 1024 * 768;
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    CHECK(bytes("layers: qkv", stage) == 3 * row * 3 * (4 - stage));
    CHECK(bytes("layers: norm1", stage) == row * 3 * 4);
    CHECK(bytes("layers: d_qkv", stage) == (stage == 0 ? 0 : 3 * row * 3 * (stage + 1)));
    CHECK(bytes("activations: d_qkv", stage) == (stage == 0 ? 3 * row : 0));
  }
  config.recompute = {"full", 0};
  CHECK(bytes("layers: norm1", 1) == row);
  CHECK(bytes("layers: recomputed norm1", 1) == row * 3 * 2);
  CHECK(bytes("layers: recomputed norm1", 0) == 0);
}

TEST_CASE("the memory table of a context rank has its tokens, and the keys and values of all") {
  Config config;
  config.model = llama3_8b();
  config.batch = {.train_batch_size = 2, .micro_batch_size = 2, .gradient_accumulation_steps = 1};
  config.training.seq_length = 1024;
  config.zero.stage = 1;
  const auto bytes = [&](const std::string& name, std::int64_t size) {
    config.parallelism.context_parallel_size = size;
    for (const Allocation& a : memory_table(config, 1))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  for (const char* cut : {"layers: norm1", "layers: qkv", "layers: lse", "layers: output",
                          "activations: embedded", "activations: losses"})
    CHECK(bytes(cut, 4) * 4 == bytes(cut, 1));
  for (const char* gathered : {"activations: keys_values", "activations: d_keys_values"}) {
    CHECK(bytes(gathered, 1) == 0);
    CHECK(bytes(gathered, 4) == std::int64_t{2} * 1024 * 2 * 8 * 128 * 4);
  }
  CHECK(bytes("rope tables", 4) == bytes("rope tables", 1));
  CHECK(bytes("optimizer: exp_avg", 4) ==
        Approx(bytes("optimizer: exp_avg", 1) / 4).epsilon(0.001));  // ZeRO shards over these ranks
}

TEST_CASE("the memory table follows 16-bit types and recomputation") {
  Config config;
  config.model = gpt2_124m();
  config.batch.micro_batch_size = 4;
  config.training.seq_length = 1024;
  config.precision.bf16 = true;
  config.recompute = {"full", 0};
  std::map<std::string, std::int64_t> full, part, selective;
  const auto fill = [&](auto& table) {
    for (const Allocation& a : memory_table(config, 1)) table[a.name] = a.bytes;
  };
  fill(full);
  config.recompute.num_layers = 5;
  fill(part);
  config.recompute = {"selective", 0};
  fill(selective);
  const std::int64_t row = std::int64_t{4} * 1024 * 768;
  CHECK(full["bf16 weights"] == 2 * parameter_table(config.model, false).total);
  CHECK(full["layers: output"] == 2 * 12 * row);
  CHECK(full["layers: qkv"] == 2 * 3 * row);
  CHECK(full["layers: lse"] == std::int64_t{4} * 4 * 12 * 1024);
  CHECK(part["layers: qkv"] == 2 * 3 * row * (12 - 5 + 1));
  CHECK(selective["layers: activated"] == 2 * 4 * row);
  CHECK(selective["layers: up"] == 2 * 4 * row * 12);
}

TEST_CASE("a worker copies its part of the state for a save") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 6, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  const std::int64_t all = 3 * 4 * parameter_table(config.model, false).total;
  CHECK(checkpoint_bytes(config) == all);
  CHECK(save_bytes(config) == Approx(all / 3).margin(2 * 3 * 4 * Sharding::kChunk));
  config.batch.gradient_accumulation_steps = 6;
  CHECK(save_bytes(config) == all);
}

TEST_CASE("a tensor rank keeps and copies its part, and exchanges pieces for a save") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  config.training.seq_length = 8;
  for (const int size : {1, 2, 4}) {
    config.parallelism.tensor_parallel_size = size;
    const std::int64_t part = parameter_table(config.model, false, size).total;
    std::map<std::string, std::int64_t> bytes;
    for (const Allocation& a : memory_table(config, 1)) bytes[a.name] = a.bytes;
    CHECK(bytes["parameters"] == 4 * part);
    CHECK(bytes["optimizer: exp_avg"] == 4 * part);
    CHECK(bytes["checkpoint: copy"] == 3 * 4 * part);
    CHECK(bytes["checkpoint: exchange between tensor ranks"] ==
          (size == 1 ? 0 : kCheckpointExchangeBytes));
  }
}

TEST_CASE("tensor ranks of a small model exchange no more than its largest cut tensor") {
  Config config;
  config.model = gpt2_124m();
  config.model.vocab_size = 100;
  config.model.num_hidden_layers = 1;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 256;
  config.model.num_attention_heads = config.model.num_key_value_heads = 4;
  config.model.head_dim = 16;
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  config.training.seq_length = 8;
  config.parallelism.tensor_parallel_size = 2;
  std::map<std::string, std::int64_t> bytes;
  for (const Allocation& a : memory_table(config, 1)) bytes[a.name] = a.bytes;
  CHECK(bytes["checkpoint: exchange between tensor ranks"] == 2 * 4 * 64 * 256);  // of the MLP
}

TEST_CASE("the memory table follows training without fp32 masters") {
  Config config;
  config.model = gpt2_124m();
  config.batch.micro_batch_size = 1;
  config.training.seq_length = 8;
  config.precision.bf16 = config.precision.bf16_parameters = true;
  const std::int64_t total = parameter_table(config.model, false).total;
  const auto expect = [&](std::int64_t state) {
    std::map<std::string, std::int64_t> bytes;
    for (const Allocation& a : memory_table(config, 1)) bytes[a.name] = a.bytes;
    CHECK(bytes["parameters"] == 2 * total);
    CHECK(bytes["gradients"] == 4 * total);
    CHECK(bytes["optimizer: exp_avg_sq"] == state * total);
    CHECK_FALSE(bytes.contains("bf16 weights"));
    CHECK(bytes["checkpoint: copy"] == (2 + 2 * state) * total);
  };
  expect(4);
  config.precision.bf16_state = true;
  expect(2);
  config.precision.bf16 = false;  // then none of it counts
  CHECK(memory_table(config, 1).front().bytes == 4 * total);
}

TEST_CASE("the memory table has the 16-bit gradients that workers send") {
  Config config;
  config.model = gpt2_124m();
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  config.training.seq_length = 8;
  config.communication_data_type = "bf16";
  const std::int64_t total = parameter_table(config.model, false).total;
  const auto bytes_of = [&](const std::string& name) {
    for (const Allocation& a : memory_table(config, 1))
      if (a.name == name) return a.bytes;
    return std::int64_t{0};
  };
  CHECK(bytes_of("bf16 gradients to send") == 0);  // one worker sends none
  config.batch.train_batch_size = 2;
  for (const int stage : {0, 1}) {
    config.zero.stage = stage;
    CHECK(bytes_of("bf16 gradients to send") == 2 * total);
  }
  config.zero.stage = 2;
  CHECK(bytes_of("bf16 gradients to send") == bytes_of("gradients of blocks") / 2);
  const char* const received = "gradients received from other ranks";
  CHECK(bytes_of(received) == 0);
  config.hardware.device = "cuda";
  CHECK(bytes_of(received) == 64 << 20);
  config.distributed.backend = "gloo";  // the hosts add
  CHECK(bytes_of(received) == 0);
  config.communication_data_type = "fp32";
  CHECK(bytes_of("bf16 gradients to send") == 0);
}

TEST_CASE("what a GPU offloads leaves its table, except for the weights and a step's gradients") {
  Config config;
  config.model = gpt2_124m();
  config.hardware.device = "cuda";
  config.batch = {.train_batch_size = 2, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  config.training.seq_length = 8;
  config.precision.bf16 = true;
  const std::int64_t total = rank_table(config).total;
  const auto rows = [](const std::vector<Allocation>& table) {
    std::map<std::string, std::int64_t> out;
    for (const Allocation& row : table)
      if (row.name.find(": ") == std::string::npos || row.name.starts_with("optimizer"))
        out[row.name] = row.bytes;
    out.erase("scratch of matrix products and attention");
    return out;
  };
  using Rows = std::map<std::string, std::int64_t>;
  const Rows state{{"parameters", 4 * total},
                   {"optimizer: exp_avg", 4 * total},
                   {"optimizer: exp_avg_sq", 4 * total},
                   {"gradients", 4 * total},
                   {"bf16 weights", 2 * total}};
  CHECK(rows(memory_table(config, 1)) == state);
  CHECK(offloaded_memory(config).empty());

  config.zero.offload_optimizer = "cpu";
  CHECK(rows(memory_table(config, 1)) ==
        Rows{{"gradients", 4 * total}, {"bf16 weights", 2 * total}});
  CHECK(rows(offloaded_memory(config)) == state);
  config.zero.stage = 2;
  Rows table = rows(memory_table(config, 1));
  CHECK(table.at("bf16 weights") == 2 * total);
  CHECK(table.at("earlier sum of gradients") <= table.at("gradients of blocks"));
  CHECK(table.size() == 3);
  CHECK(rows(offloaded_memory(config)) == state);

  config.zero.offload_param = "cpu";  // no effect before stage 3
  CHECK(rows(memory_table(config, 1)) == table);
  config.zero.stage = 3;
  table = rows(memory_table(config, 1));
  CHECK(table.size() == 3);
  CHECK((table.contains("gathered weights") && !table.contains("bf16 weights")));
  config.zero.offload_optimizer = "none";
  CHECK(rows(offloaded_memory(config)) == Rows{{"bf16 weights", 2 * total}});
  config.precision.bf16 = false;
  CHECK(rows(offloaded_memory(config)) == Rows{{"parameters", 4 * total}});
  config.zero.offload_optimizer = "cpu";
  config.zero.offload_param = "none";
  CHECK(rows(memory_table(config, 1)).at("fp32 weights") == 4 * total);

  config.hardware.device = "cpu";
  CHECK(offloaded_memory(config).empty());
}

TEST_CASE("a save copies nothing that is offloaded, unless it continues during the next steps") {
  Config config;
  config.model = gpt2_124m();
  config.hardware.device = "cuda";
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  const std::int64_t all = save_bytes(config);
  config.zero.offload_optimizer = "cpu";
  CHECK(save_bytes(config) == all);
  config.checkpoint.async_save = false;
  CHECK(save_bytes(config) == 0);
}
