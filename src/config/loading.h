#pragma once

#include <map>
#include <set>
#include <string>

#include "hgtrain/config/load.h"

#include "document.h"
#include "field.h"

namespace hgt {

/// Where a key stands: in a file, or (`file` empty) on the command line.
struct Place {
  std::string file;
  int line = 0;
  std::string pointer;
};

Origin origin_of(const Place& place);

/// A key that was given, under its canonical path.
struct Given {
  const Field* field = nullptr;
  std::string path;
  Json value;
  Place place;
  bool is_auto = false;  ///< as given, before a rule gave it a value
};

/// What the stages of loading hand on: collect -> apply -> model -> resolve -> report.
struct Loading {
  LoadResult result;
  std::map<std::string, Given> given_keys;  ///< by canonical path
  std::map<std::string, Origin> origins;    ///< of every key that has not its default
  std::set<std::string> derive;             ///< keys that said "auto" and follow from others
  std::vector<std::string> noticed;         ///< keys without a meaning here
  std::vector<std::string> unknown;  ///< keys that nobody knows, where DeepSpeed lets them pass
  std::vector<KeyReport> unmatched_keys;   ///< keys that no row of the table knows
  std::vector<std::string> autos_dropped;  ///< keys whose "auto" has no rule
  std::int64_t data_workers = 1;           ///< data-parallel size

  Config& config() { return result.config; }
  /// A text that is too long to read is shortened.
  void problem(Severity severity, const Place& place, const std::string& message,
               const std::string& hint = "");
  /// A problem at a canonical path: where it was given, else nowhere.
  void problem_at(Severity severity, const std::string& path, const std::string& message,
                  const std::string& hint = "");
  bool given(const std::string& path) const { return given_keys.count(path) > 0; }
  /// Given with a value that was refused.
  bool refused(const std::string& path) const;
  /// What was given for a key that takes numbers, `otherwise` where nothing or no number was.
  double number(const std::string& path, double otherwise) const;
  /// Given with a value of its own, or a rule gave it one.
  bool has_origin(const std::string& path) const { return origins.count(path) > 0; }
  void set_origin(const std::string& path, OriginKind kind, std::string detail);
};

/// Adds `--a.b.c VALUE` pairs to the document; their keys have line 0.
void add_overrides(Document& document, const std::vector<std::string>& overrides);

/// Which unknown keys are told.
enum class Unknown { kReport, kIgnored };

/// Walks `document` along the rows of `table` and fills `loading.given_keys`; `prefix` is the
/// canonical path of the table ("" or "model."). Wrong names and shapes are problems.
void collect(const Document& document, const Field& table, const std::string& prefix,
             Unknown unknown, Loading& loading);

/// Turns each given value into what its row wants and stores it.
void apply_given_keys(Loading& loading);
void apply(const Given& given, Loading& loading);

/// The model: HF file (where it may be read), defaults of the family, what follows from the keys.
void resolve_model(Loading& loading, bool reads_files);
/// Checks of a complete model.
void check_model(Loading& loading);

/// Everything that follows from other keys: schedule, length of the run, data-parallel size, batch.
void resolve(Loading& loading, const LoadOptions& options);
void resolve_batch(Loading& loading, const LoadOptions& options);

/// What no single key can tell.
void check_together(Loading& loading);

/// Fills result.keys.
void report_keys(Loading& loading);

}  // namespace hgt
