#include "hgtrain/config/load.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/file.h"
#include "hgtrain/config/run_checkpoints.h"

#include "loading.h"

namespace hgt {
namespace {

LoadResult load(Document document, const LoadOptions& options, bool reads_files) {
  Loading loading;
  add_overrides(document, options.overrides);
  collect(document, root_section(), "", Unknown::kReport, loading);
  apply_given_keys(loading);
  resolve_model(loading, reads_files);
  resolve(loading, options);
  check_together(loading, options);
  report_keys(loading);
  return std::move(loading.result);
}

}  // namespace

std::string read_config(const std::string& path) {
  if (path != "-" && !path_exists(path, ErrorKind::kConfig)) {
    char* const here = getcwd(nullptr, 0);
    Error error(ErrorKind::kConfig,
                fmt::format("config file not found: {} (in {})", path, here ? here : "?"),
                "`hgtrain config init quickstart` writes one");
    free(here);
    throw error;
  }
  return read_input(path, kMaxConfigBytes, ErrorKind::kConfig);
}

namespace {

/// One Error that lists the problems of the given kinds, how many more there are, and what may be
/// their cause.
void throw_all(const std::vector<Problem>& problems, const std::vector<Severity>& kinds) {
  constexpr std::ptrdiff_t kMaxShown = 50;
  std::ptrdiff_t count = 0;
  ErrorList all;
  for (const Problem& problem : problems) {
    if (std::find(kinds.begin(), kinds.end(), problem.severity) == kinds.end()) continue;
    if (++count > kMaxShown) continue;
    Error error(ErrorKind::kConfig, problem.message, problem.hint);
    if (const std::string where = problem.where(); !where.empty()) error.in(where);
    all.add(std::move(error));
  }
  if (count > kMaxShown)
    all.add({ErrorKind::kConfig, fmt::format("and {} more of these", count - kMaxShown),
             "`hgtrain config check FILE --json` lists all"});
  if (count == 0) return;
  for (const Problem& problem : problems)
    if (problem.may_explain_errors)
      all.note(problem.message +
               (problem.where().empty() ? "" : fmt::format(" ({})", problem.where())));
  all.throw_if_any();
}

}  // namespace

Problem notice(std::string message, std::string hint) {
  Problem out;
  out.severity = Severity::kNotice;
  out.message = std::move(message);
  out.hint = std::move(hint);
  return out;
}

std::string Problem::where() const {
  constexpr std::size_t kMaxPointer = 300;
  if (pointer.size() > kMaxPointer)
    return file.empty() ? "the command line" : fmt::format("{}:{}", file, line);
  if (!file.empty())
    return fmt::format("{}:{}{}", file, line, pointer.empty() ? "" : " at " + pointer);
  if (pointer.empty()) return "";
  std::string flag = "--" + pointer.substr(1);
  std::replace(flag.begin(), flag.end(), '/', '.');
  return flag + " on the command line";
}

bool LoadResult::has(Severity severity) const {
  return std::any_of(problems.begin(), problems.end(),
                     [&](const Problem& problem) { return problem.severity == severity; });
}

bool LoadResult::is_auto(std::string_view path) const {
  return std::any_of(keys.begin(), keys.end(), [&](const KeyReport& key) {
    return key.path == path && key.origin.kind == OriginKind::kAuto;
  });
}

void LoadResult::throw_errors() const {
  throw_all(problems, {Severity::kError});
}

void LoadResult::throw_unless_trainable() const {
  throw_all(problems, {Severity::kError, Severity::kNotBuilt, Severity::kMissing});
}

LoadResult load_config_text(std::string_view text, const std::string& file,
                            const LoadOptions& options) {
  return load(read_document(text, file == "-" ? "stdin" : file), options, true);
}

LoadResult load_config(const std::string& path, const LoadOptions& options) {
  return load_config_text(read_config(path), path, options);
}

std::map<std::string, std::string> written_values(std::string_view text, const std::string& file,
                                                  const std::vector<std::string>& overrides) {
  Document document = read_document(text, file == "-" ? "stdin" : file);
  add_overrides(document, overrides);
  const Json values = document.root.flatten();
  std::map<std::string, std::string> out;
  for (const auto& [pointer, value] : values.items()) {
    std::string key = pointer.substr(std::min<std::size_t>(pointer.size(), 1));
    std::replace(key.begin(), key.end(), '/', '.');
    out[key] = value.is_number() ? fmt::format("{}", value.get<double>()) : value.dump();
  }
  return out;
}

Config config_from_resolved(const Json& json) {
  Document document;
  document.file = "the resolved config";
  document.root = json;
  const LoadResult result = load(std::move(document), {}, false);
  result.throw_errors();
  return result.config;
}

}  // namespace hgt
