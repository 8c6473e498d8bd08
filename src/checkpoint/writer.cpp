#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "hgtrain/base/file.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/device/buffer.h"

#include "checkpoint_files.h"
#include "folders.h"

namespace hgt {

namespace {

constexpr const char* kTemporary = ".tmp-";
constexpr const char* kSuperseded = ".superseded";

/// Into the rank's log; nothing is lost by it.
void warn(std::string_view what, std::string_view why) {
  fmt::print(stderr, "warning: {}: {}\n", what, why);
}

class Writer : public CheckpointWriter {
 public:
  Writer(const ModelConfig& model, const ParameterTable& table, const Options& options)
      : model_(model),
        table_(table),
        options_(options),
        root_(options.run_dir + "/checkpoints"),
        tokenizer_(tokenizer_files(options.tokenizer_folder)) {
    make_folders(root_);
    sync_folder(options_.run_dir);
    for (const std::string& name : list_folder(root_))
      if (name.find(kTemporary) != std::string::npos) remove_tree(path(name));
  }
  ~Writer() override { join(); }

  void save(const TrainingState& state, const FlatState& flat,
            std::shared_ptr<const void> owner) override {
    join();
    if (state.step == saved_step_) return;
    if (!options_.async_save) return write(state, flat);
    thread_ = std::thread([this, state, kept = owner ? flat : copy_of(flat), owner] {
      name_thread("checkpoint");
      write(state, kept);
    });
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

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  FlatState copy_of(const FlatState& flat) {
    const Span span = Span::seldom("copy for the checkpoint");
    memory_.resize(flat.moments.size() + 2);
    FlatState copy{
        copied(flat.parameters, memory_[0]), {}, flat.weights_dtype, copied(flat.ema, memory_[1])};
    for (std::size_t i = 0; i < flat.moments.size(); ++i)
      copy.moments.push_back(
          {flat.moments[i].name, copied(flat.moments[i].values, memory_[i + 2])});
    return copy;
  }

  static Tensor copied(const Tensor& flat, Buffer& memory) {
    if (!flat) return {};
    const std::int64_t bytes = flat.numel() * static_cast<std::int64_t>(size_of(flat.dtype()));
    if (memory.bytes() != bytes) memory = Buffer("copy for the checkpoint", bytes);
    std::memcpy(memory.data(), flat.raw(), static_cast<std::size_t>(bytes));
    return Tensor(memory.data(), {flat.numel()}, flat.dtype());
  }

  /// Runs on the thread; nothing leaves it but error_.
  void write(const TrainingState& state, const FlatState& flat) noexcept {
    const Span span = Span::seldom("write checkpoint", state.step);
    std::optional<Error> error;
    try {
      commit(state, flat);
      saved_step_ = state.step;
      prune();
    } catch (const Error& e) {
      error.emplace(
          e.kind(),
          fmt::format("checkpoint {} could not be written: {}", step_name(state.step), e.message()),
          e.hint());
    } catch (const std::exception& e) {
      error.emplace(ErrorKind::kData, fmt::format("checkpoint {} could not be written: {}",
                                                  step_name(state.step), e.what()));
    }
    const std::lock_guard lock(mutex_);
    if (error) error_ = std::move(error);
  }

  /// The order is what makes a checkpoint exist or not; tests/checkpoint/crash_test.cpp proves it.
  void commit(const TrainingState& state, const FlatState& flat) {
    const std::string name = step_name(state.step);
    const std::string temporary = path(name + kTemporary + random_suffix());
    try {
      make_folders(temporary);
      write_checkpoint_files(temporary, model_, table_, options_, tokenizer_, state, flat);
      sync_folder(temporary);
      supersede(state.step);
      rename_path(temporary, path(name));
    } catch (...) {
      remove_quietly(temporary);
      throw;
    }
    sync_folder(root_);
    write_file_atomically(path("latest"), name + "\n");
  }

  /// Sets aside what lies there of this or a later step: the run left it when it went back.
  void supersede(std::int64_t step) {
    for (const std::string& name : list_folder(root_)) {
      if (step_of(name) < step) continue;
      std::error_code ignored;
      if (std::filesystem::exists(path(name + kSuperseded), ignored)) discard(name + kSuperseded);
      rename_path(path(name), path(name + kSuperseded));
    }
  }

  /// What cannot be removed stays until the next save; that fails no checkpoint.
  void prune() {
    if (options_.keep_last_n == 0) return;
    try {
      const auto folders = list_checkpoints(options_.run_dir);
      for (std::size_t i = static_cast<std::size_t>(options_.keep_last_n); i < folders.size(); ++i)
        discard(std::filesystem::path(folders[i]).filename().string());
      for (const std::string& name : list_folder(root_))
        if (name.ends_with(kSuperseded)) discard(name);
    } catch (const Error& e) {
      warn("an old checkpoint stays", e.message());
    }
  }

  /// Removes a folder so that at no moment a part of it looks like a checkpoint.
  void discard(const std::string& name) {
    const std::string doomed = path(name + kTemporary + random_suffix());
    rename_path(path(name), doomed);
    sync_folder(root_);
    remove_tree(doomed);
  }

  static void remove_quietly(const std::string& folder) noexcept {
    try {
      if (path_exists(folder)) remove_tree(folder);
    } catch (const std::exception& e) {
      warn("an unfinished checkpoint stays", e.what());
    }
  }

  const ModelConfig model_;
  const ParameterTable table_;
  const Options options_;
  const std::string root_;
  const std::vector<CopiedFile> tokenizer_;
  std::vector<Buffer> memory_;    // of the copy that the thread writes from
  std::int64_t saved_step_ = -1;  // the thread's while it runs
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
