#include "loading.h"

#include <algorithm>

#include "hgtrain/base/text.h"
#include "hgtrain/config/model_family.h"

#include "value.h"

namespace hgt {

void Loading::problem(Severity severity, const Place& place, const std::string& message,
                      const std::string& hint) {
  constexpr std::size_t kMaxBytes = 2000;  // texts from the file may be of any length
  result.problems.push_back({severity, shortened(message, kMaxBytes), shortened(hint, kMaxBytes),
                             place.file, place.line, place.pointer});
}

void Loading::problem_at(Severity severity, const std::string& path, const std::string& message,
                         const std::string& hint) {
  const auto found = given_keys.find(path);
  problem(severity, found == given_keys.end() ? Place() : found->second.place, message, hint);
}

std::string Loading::model_key(const std::string& key) const {
  const auto found = given_keys.find("model." + key);
  if (found == given_keys.end()) return family_key(family_of(result.config.model), key);
  const std::string& pointer = found->second.place.pointer;
  return pointer.substr(pointer.rfind('/') + 1);
}

bool Loading::refused(const std::string& path) const {
  if (mistyped.contains(path)) return true;
  const auto given = given_keys.find(path);
  return given != given_keys.end() &&
         std::any_of(result.problems.begin(), result.problems.end(), [&](const Problem& problem) {
           return problem.severity == Severity::kError &&
                  problem.pointer == given->second.place.pointer;
         });
}

double Loading::number(const std::string& path, double otherwise) const {
  const auto found = given_keys.find(path);
  if (found == given_keys.end()) return otherwise;
  const Value value = to_value(*found->second.field, found->second.value);
  return value.problem.empty() && value.json.is_number() ? value.json.get<double>() : otherwise;
}

void Loading::set_origin(const std::string& path, OriginKind kind, std::string detail) {
  origins[path] = {kind, std::move(detail)};
}

}  // namespace hgt
