#include "start.h"

#include <exception>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/comm/together.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/run_checkpoints.h"

#include "state_exchange.h"

namespace hgt {
namespace {

/// Everything of a run that a checkpoint fills.
struct Parts {
  const Config& config;
  const RunOptions& options;
  const ParameterTable& table;
  const RankPlan& plan;
  const FlatBuffers& buffers;
  std::uint64_t digest, old_digest;  ///< on rank 0
  ThreadPool& pool;
  const Groups& groups;
  Communicator& comm = *groups.world;
};

/// An exchange for the buffers of which ranks need more than their own part.
StateExchange exchange_of(std::vector<FlatTensor> buffers, const Parts& parts) {
  std::erase_if(buffers, [](const FlatTensor& buffer) { return !buffer || buffer.sharded; });
  return {parts.table, parts.plan, *parts.groups.data, std::move(buffers)};
}

/// The buffers that a checkpoint fills. Moments before the first update are zero everywhere.
std::vector<FlatTensor> filled_by(const LoadedCheckpoint& loaded, const FlatState& flat) {
  std::vector<FlatTensor> out = {flat.parameters};
  if (loaded.state.optimizer_steps > 0)
    for (const FlatState::Moment& moment : flat.moments) out.push_back(moment.values);
  if (loaded.has_ema) out.push_back(flat.ema);
  return out;
}

/// Reads this rank's slices, and meanwhile gives and gets what all ranks need. A rank that finds
/// damage still gives the others what they wait for.
void read_and_share(const CheckpointReader& reader, const FlatState& flat, const Parts& parts) {
  StateExchange exchange = exchange_of(filled_by(reader.loaded(), flat), parts);
  std::exception_ptr failed;
  try {
    reader.read([&](const FlatTensor& buffer, const Parameter& parameter) {
      exchange.read(buffer.values, parameter);
    });
  } catch (...) {
    failed = std::current_exception();
  }
  exchange.finish();
  if (failed) std::rethrow_exception(failed);
}

void require_same_batches(const std::string& folder, const LoadedCheckpoint& loaded,
                          const Parts& parts) {
  if (loaded.state.config_digest == parts.digest || loaded.state.config_digest == parts.old_digest)
    return;
  throw Error(ErrorKind::kConfig, folder + " was trained on other batches",
              "a resumed run keeps training.seed, training.seq_length, train_batch_size and the "
              "data's content, weights, validation split, seed and shuffle; to start a new run "
              "from these weights, "
              "set model.init to this folder");
}

void resume(const std::string& folder, const Parts& parts, Start& start) {
  const FlatState flat = parts.buffers.state();
  std::optional<CheckpointReader> reader;
  run_together(parts.comm, [&]() -> std::string {
    reader.emplace(folder, parts.config.model, parts.table, flat);
    if (parts.comm.rank() == 0) require_same_batches(folder, reader->loaded(), parts);
    return "";
  });
  run_together(parts.comm, [&]() -> std::string {
    read_and_share(*reader, flat, parts);
    return "";
  });
  const LoadedCheckpoint& loaded = reader->loaded();
  start.state = loaded.state;
  start.state.config_digest = parts.digest;
  start.state.loss_scale =
      LossScaler(parts.config.precision)
          .resumed(loaded.state.loss_scale, loaded.weights_dtype, loaded.state.optimizer_steps > 0);
  if (flat.ema && !loaded.has_ema) {
    parts.buffers.begin_ema(parts.pool);
    start.notice = fmt::format("{} has no moving average: it starts from the weights", folder);
  }
  start.checkpoint = folder;
}

/// The checkpoint that the run's branch, which has saved none, began at; nothing if it began at
/// step 0.
std::vector<std::string> origin_of(const std::string& run_dir) {
  require_whole_checkpoint(run_dir);
  const std::optional<BranchOrigin> origin = read_origin(run_dir);
  if (!origin || origin->checkpoint.empty()) return {};
  const std::string folder = origin_folder(run_dir, *origin);
  if (!path_exists(folder))
    throw Error(
        ErrorKind::kData,
        fmt::format("{} has saved no checkpoint yet, and the one that it began at, {}, is gone",
                    run_dir, folder),
        "name the checkpoint to resume from: --resume PATH");
  return {folder};
}

/// Rank 0's result of `find` in the run folder, on all ranks.
std::vector<std::string> found_by_first(std::vector<std::string> (*find)(const std::string&),
                                        const Parts& parts) {
  const std::string found = run_together(parts.comm, [&]() -> std::string {
                              if (parts.comm.rank() > 0) return "";
                              return nlohmann::json(find(parts.options.run_dir)).dump();
                            }).front();
  return parse_json<nlohmann::json>(found).get<std::vector<std::string>>();
}

/// Resumes from the newest whole checkpoint of the run's branch or, if the branch has saved none
/// yet, from the one that it began at; false if it began at step 0. If there are checkpoints but
/// all are damaged, throws the newest one's error.
bool resume_newest(const Parts& parts, Start& start) {
  std::optional<Error> newest_error;
  for (const std::string& folder : found_by_first(list_checkpoints, parts)) {
    try {
      resume(folder, parts, start);
      return true;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kData) throw;
      start.refused.push_back(message_in_context(e));
      if (!newest_error)
        newest_error.emplace(
            e.kind(), start.refused.back(),
            "no other checkpoint of this run is whole: start a new run, with another --run_dir");
    }
  }
  if (newest_error) throw Error(*newest_error);
  for (const std::string& folder : found_by_first(origin_of, parts)) {
    resume(folder, parts, start);
    return true;
  }
  return false;
}

/// The run goes back to this checkpoint, because what was trained since is worth nothing.
void require_kept(const Parts& parts) {
  run_together(parts.comm, [&]() -> std::string {
    if (parts.comm.rank() == 0 && !is_folder(parts.options.resume))
      throw Error(ErrorKind::kData,
                  fmt::format("training has to go back to {}, which is gone", parts.options.resume),
                  "the later checkpoints were trained with other data; --resume PATH takes one "
                  "of them nevertheless, or an older one");
    return "";
  });
}

/// Loads the checkpoint or the weights that the run begins with; false if they are to be drawn.
bool load(const Parts& parts, Start& start) {
  if (parts.options.resume == "auto") {
    if (resume_newest(parts, start)) return true;
  } else if (parts.options.resume != "none") {
    if (parts.options.is_restart) require_kept(parts);
    resume(parts.options.resume, parts, start);
    return true;
  }
  start.state.best_eval_loss = std::numeric_limits<double>::infinity();
  start.state.config_digest = parts.digest;
  start.state.loss_scale = LossScaler(parts.config.precision).initial();
  if (parts.config.model.init.empty()) return false;
  const FlatState flat = parts.buffers.state();
  run_together(parts.comm, [&]() -> std::string {
    load_hf_weights(parts.config.model.init, parts.table, flat.parameters, flat.slices,
                    flat.tensor);
    return "";
  });
  exchange_of({flat.parameters}, parts).finish();
  parts.buffers.begin_ema(parts.pool);
  return true;
}

}  // namespace

Start prepare_start(const Config& config, const RunOptions& options, const ParameterTable& table,
                    const RankPlan& plan, const FlatBuffers& buffers, const DataFingerprint& data,
                    ThreadPool& pool, const Groups& groups) {
  const Span span = Span::rare("load or draw the weights");
  const Parts parts{config,
                    options,
                    table,
                    plan,
                    buffers,
                    config_digest(config, data.content),
                    old_config_digest(config, data.old),
                    pool,
                    groups};
  Start start;
  if (!load(parts, start))
    buffers.initialize(table, static_cast<std::uint64_t>(config.training.seed), pool);
  groups.world->broadcast(std::as_writable_bytes(std::span(&start.state, 1)),
                          0);  // the digest is rank 0's
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
