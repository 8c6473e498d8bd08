#include <fmt/format.h>

#include "loading.h"
#include "value.h"

namespace hgt {
namespace {

class Report {
 public:
  explicit Report(Loading& loading) : loading_(loading) {}

  void section(const Field& table, const std::string& path, const std::string& type) {
    for (const Field& field : table.fields) {
      if (!goes_with(field, type)) continue;
      if (!field.fields.empty())
        section(field, path + field.name + ".", type_below(field, loading_.config(), type));
      else
        key(field, path + field.name);
    }
  }

 private:
  void key(const Field& field, const std::string& path) {
    const auto given = loading_.given_keys.find(path);
    const bool is_given = given != loading_.given_keys.end();
    const bool used = field.key_class == KeyClass::kUsed && !field.moves;
    if (!is_given && !(used && field.slot)) return;
    KeyReport out;
    out.path = path;
    out.key_class = field.key_class;
    out.help = field.help;
    out.given = is_given;
    out.value = json_text(field.slot ? load(field, loading_.config()) : given->second.value);
    out.given_auto = is_given && given->second.is_auto;
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

  Loading& loading_;
};

}  // namespace

void report_keys(Loading& loading) {
  Report(loading).section(root_section(), "", "");
  for (KeyReport& key : loading.unmatched_keys) loading.result.keys.push_back(std::move(key));
}

}  // namespace hgt
