#include "start.h"

#include <limits>
#include <xxhash.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/model/init.h"

namespace hgt {
namespace {

/// The checkpoint to go on from, "" for none.
std::string checkpoint_to_resume(const RunOptions& options) {
  if (options.resume == "none") return {};
  if (options.resume != "auto") return options.resume;
  const std::vector<std::string> checkpoints = list_checkpoints(options.run_dir);
  return checkpoints.empty() ? std::string() : checkpoints.front();
}

Start load_or_draw(const Config& config, const RunOptions& options, const ParameterTable& table,
                   const FlatBuffers& buffers, std::uint64_t digest) {
  Start start;
  start.checkpoint = checkpoint_to_resume(options);
  const std::span<float> parameters = buffers.parameters.as<float>();
  if (!start.checkpoint.empty()) {
    start.state = load_checkpoint(start.checkpoint, config.model, table, buffers.state());
    if (start.state.config_digest != digest)
      throw Error(
          ErrorKind::kConfig, start.checkpoint + " was trained on other batches",
          "a resumed run keeps training.seed, training.seq_length, train_batch_size and the "
          "data's files, weights, seed and shuffle; to start a new run from these weights, "
          "set model.init to this folder");
    return start;
  }
  start.state.best_eval_loss = std::numeric_limits<double>::infinity();
  start.state.config_digest = digest;
  if (config.model.init.empty())
    init_parameters(table, static_cast<std::uint64_t>(config.training.seed), parameters);
  else
    load_hf_weights(config.model.init, config.model, table, parameters);
  return start;
}

}  // namespace

Start prepare_start(const Config& config, const RunOptions& options, const ParameterTable& table,
                    const FlatBuffers& buffers, std::uint64_t data_fingerprint,
                    Communicator& comm) {
  Start start;
  if (comm.rank() == 0)
    start = load_or_draw(config, options, table, buffers, config_digest(config, data_fingerprint));
  comm.broadcast(std::as_writable_bytes(std::span(&start.state, 1)), 0);
  for (const Buffer* buffer : {&buffers.parameters, &buffers.exp_avg, &buffers.exp_avg_sq})
    comm.broadcast(buffer->as<std::byte>(), 0);
  return start;
}

std::uint64_t config_digest(const Config& config, std::uint64_t data_fingerprint) {
  const std::string text = fmt::format("{} {} {} {} {} {}", config.training.seed,
                                       config.training.seq_length, config.batch.train_batch_size,
                                       config.data.seed, config.data.shuffle, data_fingerprint);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace hgt
