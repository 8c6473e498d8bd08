#pragma once

#include <map>
#include <set>
#include <string>

#include "hgtrain/config/load.h"

#include "document.h"
#include "field.h"

namespace hgt {

/// Where a key is given: in a file or, if `file` is empty, on the command line.
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
  bool is_auto = false;  ///< given as "auto"; a rule may have set the value
};

/// The state that the stages of loading pass on: collect -> apply -> model -> resolve -> report.
struct Loading {
  LoadResult result;
  std::map<std::string, Given> given_keys;  ///< by canonical path
  std::map<std::string, Origin> origins;    ///< of every key whose value is not its default
  std::set<std::string> derive;             ///< keys that are "auto" and follow from others
  std::vector<std::string> ignored;         ///< keys without effect in hgtrain
  /// Unknown keys in places where DeepSpeed ignores them.
  std::vector<std::pair<std::string, Place>> unknown;
  std::vector<KeyReport> unmatched_keys;   ///< keys that match no row of the table
  std::vector<std::string> autos_dropped;  ///< keys whose "auto" has no rule
  std::set<std::string> mistyped;          ///< paths that unknown keys seem to mean
  std::int64_t data_workers = 1;           ///< data-parallel size

  Config& config() { return result.config; }
  /// A text that is too long to read is shortened.
  void problem(Severity severity, const Place& place, const std::string& message,
               const std::string& hint = "");
  /// A problem of the key at a canonical path; its place is known if the key was given.
  void problem_at(Severity severity, const std::string& path, const std::string& message,
                  const std::string& hint = "");
  bool given(const std::string& path) const { return given_keys.count(path) > 0; }
  /// A key of the model in the spelling of the file, else in that of the model's family: for
  /// messages.
  std::string model_key(const std::string& key) const;
  /// Whether the key was given with a value that was refused, or under a wrong name.
  bool refused(const std::string& path) const;
  /// The number that was given for a key, `otherwise` if nothing or no number was given.
  double number(const std::string& path, double otherwise) const;
  /// Whether the key has a value that was given, or that a rule set.
  bool has_origin(const std::string& path) const { return origins.count(path) > 0; }
  void set_origin(const std::string& path, OriginKind kind, std::string detail);
};

/// Adds `--a.b.c VALUE` pairs to the document; their keys have line 0.
void add_overrides(Document& document, const std::vector<std::string>& overrides);

/// Whether unknown keys are reported.
enum class Unknown { kReport, kIgnored };

/// Matches `document` with the rows of `table` and fills `loading.given_keys`; `prefix` is the
/// canonical path of the table ("" or "model."). Wrong names and shapes are problems.
void collect(const Document& document, const Field& table, const std::string& prefix,
             Unknown unknown, Loading& loading);

/// Converts each given value to the kind of its row and stores it.
void apply_given_keys(Loading& loading);
void apply(const Given& given, Loading& loading);

/// Resolves the model: HF's file (if `reads_files`), the family's defaults, then derived values.
void resolve_model(Loading& loading, bool reads_files);
/// Checks of a complete model.
void check_model(Loading& loading);

/// Resolves all values that follow from others: schedule, length, data-parallel size, batch.
void resolve(Loading& loading, const LoadOptions& options);
void resolve_batch(Loading& loading, const LoadOptions& options);

/// Checks that concern several keys.
void check_together(Loading& loading, const LoadOptions& options);

/// Fills result.keys.
void report_keys(Loading& loading);

}  // namespace hgt
