#include <fmt/format.h>

#include "hgtrain/config/hf_config.h"

#include "loading.h"
#include "value.h"

namespace hgt {
namespace {

class Report {
 public:
  explicit Report(Loading& loading)
      : loading_(loading), model_(hf_config_json(loading.config().model)) {}

  void section(const Field& table, const std::string& path, const std::string& type) {
    for (const Field& field : table.fields) {
      if (!goes_with(field, type)) continue;
      if (!field.fields.empty())
        section(field, path + field.name + ".", type_below(path + field.name));
      else
        key(field, path + field.name);
    }
  }

 private:
  std::string type_below(const std::string& path) const {
    const std::string& scheduler = loading_.result.config.scheduler.type;
    if (path == "scheduler") return scheduler.empty() ? "none" : scheduler;
    return path == "optimizer" ? loading_.result.config.optimizer.type : "";
  }

  void key(const Field& field, const std::string& path) {
    const auto given = loading_.givens.find(path);
    const bool is_given = given != loading_.givens.end();
    const bool used = field.key_class == KeyClass::kUsed && !field.moves;
    if (!is_given && !(used && field.slot)) return;
    KeyReport out;
    out.path = path;
    out.key_class = field.key_class;
    out.given = is_given;
    out.value = value(field, is_given ? &given->second.value : nullptr).dump();
    if (const auto origin = loading_.origins.find(path); origin != loading_.origins.end())
      out.origin = origin->second;
    for (const Problem& problem : loading_.result.problems)
      if (is_given && problem.pointer == given->second.place.pointer) mark(problem, out);
    loading_.result.keys.push_back(std::move(out));
  }

  static void mark(const Problem& problem, KeyReport& out) {
    if (problem.severity == Severity::kNotBuilt) {
      out.key_class = KeyClass::kNotBuilt;
      out.switched_on = true;
    }
    if (problem.severity == Severity::kError) out.key_class = KeyClass::kError;
  }

  Json value(const Field& field, const Json* given) {
    if (field.slot) return load(field.slot(loading_.config()));
    return *given;
  }

  Loading& loading_;
  Json model_;
};

}  // namespace

void report_keys(Loading& loading) {
  Report(loading).section(root_section(), "", "");
}

}  // namespace hgt
