#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

/// What the program does with a key.
enum class KeyClass {
  kUsed,      ///< changes the run
  kNoticed,   ///< known, but without a meaning for a native trainer: ignored, in one notice for all
  kNotBuilt,  ///< not in this version: training refuses it where it is switched on
  kError,     ///< never accepted
};

enum class Severity {
  kError,     ///< the file is wrong
  kNotBuilt,  ///< switches on what this version does not have; only training refuses it
  kMissing,   ///< training needs it; a file made for DeepSpeed alone lacks it
  kNotice,    ///< worth a line
};

/// Something to tell about a config: what, where, and how to fix it.
struct Problem {
  Severity severity = Severity::kError;
  std::string message;
  std::string hint;
  std::string file;     ///< "" for the command line and for what stands nowhere
  int line = 0;         ///< 0: unknown
  std::string pointer;  ///< JSON pointer of the key as it is spelled, "" for none

  /// "in FILE:LINE at /pointer", "in --a.b.c on the command line", or "".
  std::string where() const;
};

enum class OriginKind { kDefault, kFile, kFlag, kAuto, kDerived };

/// Where the value of a key comes from.
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string detail;  ///< "FILE:LINE", "--a.b.c", or the rule that gave the value
};

/// One key of the resolved config, or one that was given.
struct KeyReport {
  std::string path;  ///< "optimizer.params.lr", in the canonical spelling
  KeyClass key_class = KeyClass::kUsed;
  bool given = false;        ///< in the file or on the command line
  bool switched_on = false;  ///< kNotBuilt: the value asks for what is not built, training refuses
  bool given_auto = false;   ///< as "auto", which a rule turned into the value
  std::string value;         ///< JSON text
  Origin origin;
};

struct LoadOptions {
  /// `--a.b.c VALUE` pairs, alternating, without the dashes.
  std::vector<std::string> overrides;
  /// Workers of the run; where unknown, what the batch sizes imply, else 1.
  std::optional<std::int64_t> world_size;
  /// train_batch_size of the run that is resumed. A config that gives none keeps it.
  std::optional<std::int64_t> resumed_batch_size = std::nullopt;
};

struct LoadResult {
  Config config;  ///< resolved as far as the problems allow
  std::vector<Problem> problems;
  std::vector<KeyReport> keys;  ///< in the order of the tables, then what no row knows

  bool has(Severity severity) const;
  /// Whether the value at `path` ("bf16.enabled") was "auto". That of bf16 and fp16 is settled by
  /// the GPUs of the run: here it is false.
  bool is_auto(std::string_view path) const;
  /// Throws one Error(kConfig) that tells every error (and, for training, everything that is not
  /// built or missing) at once.
  void throw_errors() const;
  void throw_unless_trainable() const;
};

/// Reads a config file ("-": stdin), applies overrides, resolves "auto" and the batch triple. Wrong
/// contents are problems of the result; an Error(kConfig) is thrown only for a file that cannot be
/// read or is not JSON.
LoadResult load_config(const std::string& path, const LoadOptions& options);

/// The same from a text, `file` being its name in messages.
LoadResult load_config_text(std::string_view text, const std::string& file,
                            const LoadOptions& options);

/// Turns training.num_epochs into train_iters, `epoch_samples` being the samples of one pass over
/// the data, and what follows from it (the scheduler's total_num_steps).
void set_epoch_samples(Config& config, std::int64_t epoch_samples);

/// The resolved config as JSON: a valid config file itself, which gives the same Config back.
nlohmann::ordered_json to_json(const Config& config);

/// Puts the keys of `given` that ask for what is not built into `json`, which to_json made of it:
/// read again, it is refused as the file was.
void keep_not_built(const LoadResult& given, nlohmann::ordered_json& json);

/// Turns keys that were given as "auto" and whose path starts with `prefix` back into that.
void keep_auto(const LoadResult& given, std::string_view prefix, nlohmann::ordered_json& json);

/// Takes batch sizes away that follow from others and the number of workers.
void leave_out_derived_batch(const LoadResult& given, nlohmann::ordered_json& json);

/// Reads what to_json wrote. Error(kConfig) on anything else.
Config config_from_resolved(const nlohmann::ordered_json& json);
Config load_resolved_config(const std::string& path);

}  // namespace hgt
