#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"
#include "hgtrain/config/key_report.h"

namespace hgt {

/// The micro-batch if nothing determines it: per_device_train_batch_size and
/// per_device_eval_batch_size of HF's Trainer.
inline constexpr std::int64_t kHfMicroBatch = 8;

struct LoadOptions {
  /// `--a.b.c VALUE` pairs, alternating, without the dashes.
  std::vector<std::string> overrides = {};
  /// Workers of the run. If it is not given, the number that the batch sizes imply, or 1.
  std::optional<std::int64_t> world_size = std::nullopt;
  /// train_batch_size of the run that is resumed. A config that gives none keeps it.
  std::optional<std::int64_t> resumed_batch_size = std::nullopt;
  /// Whether the workers share the model as the config says, which is then checked.
  bool splits_model = true;
  /// Whether the config must name data and a number of steps.
  bool trains_on_data = true;
};

struct LoadResult {
  Config config;  ///< resolved as far as the problems allow
  std::vector<Problem> problems;
  std::vector<KeyReport> keys;  ///< in the order of the tables, then the unknown keys

  bool has(Severity severity) const;
  /// Whether the value at `path` ("bf16.enabled") was "auto". The GPUs of the run decide on bf16
  /// and fp16; until then both are false.
  bool is_auto(std::string_view path) const;
  /// Throws one Error(kConfig) that lists all errors and, for training, all keys that are missing
  /// or not built.
  void throw_errors() const;
  void throw_unless_trainable() const;
};

/// The text of a config file ("-": stdin). Error(kConfig) if it cannot be read.
std::string read_config(const std::string& path);

/// Reads a config file ("-": stdin), applies overrides, resolves "auto" and the batch triple. Wrong
/// contents are problems of the result; an Error(kConfig) is thrown only for a file that cannot be
/// read or is not JSON.
LoadResult load_config(const std::string& path, const LoadOptions& options);

/// The same from the text of `file`, which may be read only once if it is a pipe.
LoadResult load_config_text(std::string_view text, const std::string& file,
                            const LoadOptions& options);

/// What the text of `file` and the overrides say, by key ("optimizer.params.lr"), before defaults,
/// "auto" and other files are looked at: equal on two machines whose users wrote the same.
std::map<std::string, std::string> written_values(std::string_view text, const std::string& file,
                                                  const std::vector<std::string>& overrides);

/// Turns training.num_epochs into train_iters, and sets what follows from it (the scheduler's
/// total_num_steps). `epoch_samples`: the samples of one pass over the data.
void set_epoch_samples(Config& config, std::int64_t epoch_samples);

/// The resolved config as JSON: a valid config file itself, which gives the same Config back.
nlohmann::ordered_json to_json(const Config& config);

/// Adds the keys of `given` that are not built to `json`, which to_json made of it, so that it is
/// refused like the file when it is read again.
void keep_not_built(const LoadResult& given, nlohmann::ordered_json& json);

/// Sets keys that were given as "auto", and whose path starts with `prefix`, to "auto" again.
void keep_auto(const LoadResult& given, std::string_view prefix, nlohmann::ordered_json& json);

/// Removes keys that were not given but follow from other ones or the number of workers, and whose
/// path starts with `prefix`.
void leave_out_derived(const LoadResult& given, std::string_view prefix,
                       nlohmann::ordered_json& json);

/// Removes what an HF config.json has but this program does not read.
void leave_out_unread(nlohmann::ordered_json& json);

/// Reads what to_json wrote. Error(kConfig) on anything else.
Config config_from_resolved(const nlohmann::ordered_json& json);

}  // namespace hgt
