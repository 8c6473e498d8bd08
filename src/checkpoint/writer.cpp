#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "hgtrain/base/exception.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/comm/connect.h"
#include "hgtrain/comm/together.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/run_checkpoints.h"

#include "checkpoint_files.h"
#include "manifest.h"

namespace hgt {

namespace {

/// The ranges that a rank wrote, as the others get them.
std::string bytes_of(const std::vector<PlacedRange>& ranges) {
  return {reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(PlacedRange)};
}

std::vector<PlacedRange> ranges_in(const std::vector<std::string>& of_ranks) {
  std::vector<PlacedRange> out;
  for (const std::string& bytes : of_ranks) {
    if (bytes.empty()) continue;  // the rank owns so little that it wrote no range
    const std::size_t before = out.size();
    out.resize(before + bytes.size() / sizeof(PlacedRange));
    std::memcpy(out.data() + before, bytes.data(), bytes.size());
  }
  return out;
}

class Writer : public CheckpointWriter {
 public:
  Writer(const ModelConfig& model, const ParameterTable& table, const Options& options)
      : model_(model),
        table_(table),
        options_(options),
        root_(options.run_dir + "/checkpoints"),
        self_(options.comm ? nullptr : make_self_communicator()),
        comm_(options.comm ? *options.comm : *self_) {
    if (!is_first()) return;
    source_ = source_files(options.origin, options.tokenizer_folder, options.model_folder);
    make_folders(root_);
    sync_folder(options_.run_dir);
    remove_unfinished(options_.run_dir);
    const BranchOrigin origin = begin_branch(options_.run_dir, options_.origin);
    leave_other_branches(step_of(origin.checkpoint));
    if (options_.keep_best) find_only_best();
  }
  ~Writer() override { join(); }

  void save(const TrainingState& state, const FlatState& flat, std::shared_ptr<const void> owner,
            Reason reason) override {
    join();
    if (state.step == saved_step_) return;
    if (!options_.async_save) return write(state, flat, reason);
    const FlatState kept = owner ? flat : copy_slices(flat, memory_, std::memcpy);
    thread_ = std::thread([this, state, kept, owner, reason] {
      name_thread("checkpoint");
      write(state, kept, reason);
    });
  }

  const std::vector<std::string>& left() const override { return left_; }

  std::vector<std::string> superseded() const override {
    std::vector<std::string> names = list_folder(root_);
    std::erase_if(names, [](const std::string& name) { return !is_superseded(name); });
    return names;
  }

  std::optional<Error> wait() override {
    join();
    return poll_error();
  }

  std::optional<Error> poll_error() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, std::nullopt);
  }

 private:
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  /// Whether this is the rank that does everything but write the slices.
  bool is_first() const { return comm_.rank() == 0; }

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  /// Runs on the thread; the only result is error_.
  void write(const TrainingState& state, const FlatState& flat, Reason reason) noexcept {
    const Span span = Span::rare("write checkpoint", state.step);
    std::optional<Error> error;
    try {
      commit(state, flat, reason);
      saved_step_ = state.step;
      if (is_first()) committed(state, reason);
    } catch (const Error& e) {
      error.emplace(e.kind(),
                    fmt::format("checkpoint {} could not be written: {}", step_name(state.step),
                                message_in_context(e)),
                    e.hint());
    } catch (const std::exception& e) {
      error.emplace(ErrorKind::kData, fmt::format("checkpoint {} could not be written: {}",
                                                  step_name(state.step), e.what()));
    }
    const std::lock_guard lock(mutex_);
    if (error) error_ = std::move(error);
  }

  /// The order is what makes a checkpoint exist or not; tests/checkpoint/crash_test.cpp proves it.
  /// An error of any rank ends the step on all of them, so none waits for another in vain.
  void commit(const TrainingState& state, const FlatState& flat, Reason reason) {
    const TensorFiles files = plan_tensor_files(table_, flat, options_.max_shard_bytes);
    const std::string made = path(step_name(state.step) + kUnfinished + random_suffix());
    CheckpointManifest manifest;
    try {
      const auto create = [&] {
        make_folders(made);
        manifest = create_checkpoint_files(made, model_, options_, source_, state,
                                           flat.weights_dtype, reason, files);
        return made;
      };
      const std::string temporary =
          run_together(comm_, [&] { return is_first() ? create() : ""; }).front();
      const std::vector<std::string> ranges = run_together(
          comm_, [&] { return bytes_of(write_slices(temporary, files, options_.tensor)); });
      run_together(comm_, [&]() -> std::string {
        if (!is_first()) return "";
        write_manifest(temporary, manifest, files, ranges_in(ranges));
        publish(temporary, state);
        return "";
      });
    } catch (...) {
      if (is_first()) remove_quietly(made);
      throw;
    }
  }

  void publish(const std::string& temporary, const TrainingState& state) {
    const std::string name = step_name(state.step);
    sync_folder(temporary);
    rename_path(temporary, path(name));
    sync_folder(root_);
    write_file_atomically(path("latest"), name + "\n");
    if ((options_.keep_best || best_step_ >= 0) && state.best_eval_step == state.step)
      name_best(state.step);
    forget_origin(options_.run_dir);
  }

  void committed(const TrainingState& state, Reason reason) {
    if (reason == Reason::kBest) only_best_.insert(state.step);
    prune();
    if (options_.on_saved) options_.on_saved(path(step_name(state.step)), state.step);
  }

  /// Renames every checkpoint that is not the branch's own, that is, after step `last`, and updates
  /// or removes the files `latest` and `best` accordingly. The branch is on the disk already: a
  /// crash in between does no harm.
  void leave_other_branches(std::int64_t last) {
    std::vector<std::string> others = list_folder(root_);
    std::erase_if(others, [&](const std::string& name) { return step_of(name) <= last; });
    if (!others.empty() && options_.on_leaving) options_.on_leaving();
    for (const char* name : {"latest", "best"})
      if (is_folder(path(name))) set_aside(name);
    if (last >= 0)
      write_file_atomically(path("latest"), step_name(last) + "\n");
    else
      remove_name("latest");
    const std::int64_t best = options_.best_eval_step;
    const bool keeps_best = options_.keep_best || path_exists(path("best"));
    if (keeps_best && best > 0 && best <= last && path_exists(path(step_name(best))))
      name_best(best);
    else
      remove_name("best");
    for (const std::string& name : others) left_.push_back(set_aside(name));
  }

  std::string set_aside(const std::string& name) {
    const std::string aside = free_path(path(name + kSuperseded));
    rename_path(path(name), aside);
    return std::filesystem::path(aside).filename().string();
  }

  /// Which of the existing checkpoints were saved only because they were the best.
  void find_only_best() {
    for (const std::string& folder : list_checkpoints(options_.run_dir)) try {
        if (const CheckpointManifest manifest = read_manifest_file(folder); manifest.only_best)
          only_best_.insert(manifest.step);
      } catch (const Error& e) {
        log_warning("a damaged checkpoint is not removed: {}", e.message());
      }
  }

  void remove_name(const std::string& name) {
    if (path_exists(path(name))) remove_file(path(name));
  }

  void name_best(std::int64_t step) {
    write_file_atomically(path("best"), step_name(step) + "\n");
    best_step_ = step;
  }

  /// Removes old checkpoints. If one cannot be removed, it stays until the next save; the new
  /// checkpoint does not fail for that.
  void prune() {
    try {
      std::int64_t kept = 0;
      for (const std::string& folder : list_checkpoints(options_.run_dir)) {
        const std::string name = std::filesystem::path(folder).filename().string();
        if (step_of(name) == best_step_ ||
            (!only_best_.contains(step_of(name)) &&
             (options_.keep_last_n == 0 || kept < options_.keep_last_n)))
          ++kept;
        else if (!options_.is_in_use || !options_.is_in_use(step_of(name)))
          discard_checkpoint(path(name));
      }
      if (options_.keep_last_n > 0)
        for (const std::string& name : superseded()) discard_checkpoint(path(name));
    } catch (const Error& e) {
      log_warning("an old checkpoint could not be removed: {}", e.message());
    }
  }

  /// step_N.superseded, or step_N.superseded-2, ...
  static bool is_superseded(const std::string& name) {
    static const std::regex suffix(R"((.*)\.superseded(-[1-9][0-9]*)?)");
    std::smatch match;
    return std::regex_match(name, match, suffix) && step_of(match[1].str()) >= 0;
  }

  static void remove_quietly(const std::string& folder) noexcept {
    try {
      if (path_exists(folder)) remove_tree(folder);
    } catch (const std::exception& e) {
      log_warning("an unfinished checkpoint stays: {}", e.what());
    }
  }

  const ModelConfig model_;
  const ParameterTable table_;
  const Options options_;
  const std::string root_;
  const std::unique_ptr<Communicator> self_;  ///< if there is no other
  Communicator& comm_;
  SourceFiles source_;
  std::vector<std::string> left_;
  std::vector<Buffer> memory_;        // of the copy that the thread writes from
  std::int64_t saved_step_ = -1;      // this and the next two are the thread's while it runs
  std::int64_t best_step_ = -1;       // of the checkpoint that `best` names
  std::set<std::int64_t> only_best_;  // saved for no other reason
  std::thread thread_;
  std::mutex mutex_;  // guards error_
  std::optional<Error> error_;
};

}  // namespace

std::unique_ptr<CheckpointWriter> CheckpointWriter::create(const ModelConfig& model,
                                                           const ParameterTable& table,
                                                           const Options& options) {
  return std::make_unique<Writer>(model, table, options);
}

}  // namespace hgt
