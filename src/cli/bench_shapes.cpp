#include "bench_shapes.h"

#include <string_view>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {
namespace {

constexpr std::string_view kSmall = R"({
  "train_micro_batch_size_per_gpu": 8,
  "model": {"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256,
            "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0},
)";
constexpr std::string_view k124m = R"({
  "train_micro_batch_size_per_gpu": 2,
  "model": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
            "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0},
)";
constexpr std::string_view kBoth = R"(
  "gradient_clipping": 0,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
  "training": {"train_iters": 1000, "seq_length": 256},
  "data": {"train_data_path": "tokens that are drawn"}
})";

LoadResult load(const std::string& shape, const LoadOptions& options) {
  if (shape == "small") return load_config_text(std::string(kSmall) += kBoth, "small", options);
  if (shape == "124m") return load_config_text(std::string(k124m) += kBoth, "124m", options);
  if (!path_exists(shape, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("{} is neither a shape nor a file", shape),
                "use --shape small, --shape 124m, or the path of a config file");
  return load_config(shape, options);
}

}  // namespace

LoadResult bench_job(const std::string& shape, const std::string& dtype,
                     std::vector<std::string> overrides, std::int64_t workers,
                     const std::string& layout) {
  if (!dtype.empty())
    for (const char* section : {"bf16", "fp16"})
      overrides.insert(overrides.end(),
                       {fmt::format("{}.enabled", section), dtype == section ? "true" : "false"});
  LoadResult loaded = load(shape, {.overrides = overrides, .world_size = workers});
  if (!layout.empty())
    for (Problem& problem : loaded.problems)
      if (problem.file.empty() && !problem.pointer.empty()) {
        problem.message = fmt::format("{}: {}", layout, problem.message);
        problem.pointer.clear();
      }
  loaded.throw_unless_trainable();
  if (loaded.config.model.vocab_size == 0)
    throw Error(ErrorKind::kConfig,
                "model.vocab_size is not set, and a bench opens no data to take it from",
                "--model.vocab_size N");
  return loaded;
}

}  // namespace hgt
