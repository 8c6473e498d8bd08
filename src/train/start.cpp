#include "start.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {
namespace {

/// Everything of a run that a checkpoint fills.
struct Parts {
  const Config& config;
  const ParameterTable& table;
  const FlatBuffers& buffers;
  std::uint64_t digest, old_digest;
  ThreadPool& pool;
};

void resume(const std::string& folder, const Parts& parts, Start& start) {
  const FlatState flat = parts.buffers.state();
  const LoadedCheckpoint loaded = load_checkpoint(folder, parts.config.model, parts.table, flat);
  start.state = loaded.state;
  if (start.state.config_digest != parts.digest && start.state.config_digest != parts.old_digest)
    throw Error(ErrorKind::kConfig, folder + " was trained on other batches",
                "a resumed run keeps training.seed, training.seq_length, train_batch_size and the "
                "data's content, weights, validation split, seed and shuffle; to start a new run "
                "from these weights, "
                "set model.init to this folder");
  start.state.config_digest = parts.digest;
  start.state.loss_scale =
      LossScaler(parts.config.precision).resumed(loaded.state.loss_scale, loaded.weights_dtype);
  if (flat.ema && !loaded.has_ema) {
    parts.buffers.begin_ema(parts.pool);
    start.notice = fmt::format("{} has no moving average: it starts from the weights", folder);
  }
  start.checkpoint = folder;
}

/// Resumes from the checkpoint that the run's branch began at, because the branch has saved none
/// since.
void resume_origin(const std::string& folder, const std::string& run_dir, const Parts& parts,
                   Start& start) {
  if (!path_exists(folder))
    throw Error(ErrorKind::kData,
                fmt::format("{} has no checkpoint since it started from {}, and that is gone",
                            run_dir, folder),
                "name the checkpoint to resume from: --resume PATH");
  resume(folder, parts, start);
}

/// The error in one line, with the file it is about.
std::string with_context(const Error& error) {
  return error.context().empty()
             ? error.message()
             : fmt::format("{} ({})", error.message(), fmt::join(error.context(), ", "));
}

/// Resumes from the newest whole checkpoint of the run's branch, or from the one that the branch
/// began at; false if it began at step 0. If there are checkpoints but all are damaged, throws the
/// newest one's error.
bool resume_newest(const std::string& run_dir, const Parts& parts, Start& start) {
  std::optional<Error> newest_error;
  for (const std::string& folder : list_checkpoints(run_dir)) {
    try {
      resume(folder, parts, start);
      return true;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kData) throw;
      start.refused.push_back(with_context(e));
      if (!newest_error)
        newest_error.emplace(e.kind(), start.refused.back(),
                             "no other checkpoint of this run is whole: start anew, with another "
                             "--run_dir");
    }
  }
  if (newest_error) throw Error(*newest_error);
  const std::optional<BranchOrigin> origin = read_origin(run_dir);
  if (!origin || origin->checkpoint.empty()) return false;
  resume_origin(origin_folder(run_dir, *origin), run_dir, parts, start);
  return true;
}

/// Loads the checkpoint or the weights that the run begins with; false if they are to be drawn.
bool load(const RunOptions& options, const Parts& parts, Start& start) {
  if (options.resume == "auto") {
    if (resume_newest(options.run_dir, parts, start)) return true;
  } else if (options.resume != "none") {
    resume(options.resume, parts, start);
    return true;
  }
  start.state.best_eval_loss = std::numeric_limits<double>::infinity();
  start.state.config_digest = parts.digest;
  start.state.loss_scale = LossScaler(parts.config.precision).initial();
  if (parts.config.model.init.empty()) return false;
  load_hf_weights(parts.config.model.init, parts.config.model, parts.table,
                  parts.buffers.parameter_values());
  parts.buffers.begin_ema(parts.pool);
  return true;
}

void broadcast_state(const Start& start, const FlatBuffers& flat, Communicator& comm) {
  if (start.state.optimizer_steps > 0)  // else they are zero everywhere
    for (const Buffer& state : flat.optimizer_state) comm.broadcast(state.as<std::byte>(), 0);
  for (const Buffer* values : {&flat.parameters, &flat.ema})
    comm.broadcast(values->as<std::byte>(), 0);
}

}  // namespace

Start prepare_start(const Config& config, const RunOptions& options, const ParameterTable& table,
                    const FlatBuffers& buffers, const DataFingerprint& data, ThreadPool& pool,
                    Communicator& comm) {
  const Span span = Span::rare("load or draw the weights");
  const Parts parts{config,
                    table,
                    buffers,
                    config_digest(config, data.content),
                    old_config_digest(config, data.old),
                    pool};
  Start start;
  std::byte loaded{};
  if (comm.rank() == 0) loaded = std::byte{load(options, parts, start)};
  comm.broadcast(std::span(&loaded, 1), 0);
  comm.broadcast(std::as_writable_bytes(std::span(&start.state, 1)), 0);
  if (loaded == std::byte{})
    buffers.initialize(table, static_cast<std::uint64_t>(config.training.seed), pool);
  else
    broadcast_state(start, buffers, comm);
  return start;
}

std::uint64_t config_digest(const Config& config, std::uint64_t data_fingerprint) {
  std::string text =
      fmt::format("{} {}", old_config_digest(config, data_fingerprint), config.data.valid_fraction);
  for (const DataSource& source : config.data.train) text += fmt::format(" {}", source.weight);
  return xxh3(text);
}

std::uint64_t old_config_digest(const Config& config, std::uint64_t data_fingerprint) {
  std::string text = fmt::format("{} {} {} {} {} {}", config.training.seed,
                                 config.training.seq_length, config.batch.train_batch_size,
                                 config.data.seed, config.data.shuffle, data_fingerprint);
  if (config.data.separate_documents)
    text += fmt::format(" documents begin with {}", config.data.end_of_text.value_or(-1));
  return xxh3(text);
}

}  // namespace hgt
