#include <fmt/format.h>

#include "hgtrain/base/json.h"

#include "loading.h"
#include "value.h"

namespace hgt {
namespace {

std::string dotted(const std::string& pointer) {
  std::string out;
  for (const char c : pointer.substr(1)) out += c == '/' ? '.' : c;
  return out;
}

bool takes_auto_itself(const Field& field) {
  for (const Choice& choice : field.choices)
    if (choice.name == "auto") return true;
  return false;
}

/// True if the value was "auto" and nothing is left to apply.
bool resolve_auto(Given& given, Loading& loading) {
  const Field& field = *given.field;
  if (given.value != "auto") return false;
  loading.given_keys[given.path].is_auto =
      takes_auto_itself(field) || !field.auto_value.empty() || field.auto_is_derived;
  if (takes_auto_itself(field)) return false;
  if (field.refuses_auto) {
    loading.problem(Severity::kError, given.place,
                    fmt::format("{} = \"auto\" has no meaning without HF's Trainer", given.path),
                    fmt::format("give a number from {} to {}", field.min, field.max));
    return true;
  }
  if (!field.auto_value.empty()) {
    given.value = parse_json<Json>(field.auto_value);
    loading.set_origin(given.path, OriginKind::kAuto, "\"auto\": " + field.auto_reason);
    return false;
  }
  if (field.auto_is_derived)
    loading.derive.insert(given.path);
  else
    loading.autos_dropped.push_back(given.path);
  return true;
}

void refuse(const Given& given, KeyClass key_class, const std::string& shown,
            const std::string& why, const std::string& hint, Loading& loading) {
  if (key_class == KeyClass::kNotBuilt)
    loading.problem(Severity::kNotBuilt, given.place,
                    fmt::format("{} = {} is not built yet", given.path, shown),
                    hint.empty() ? "remove it to train without" : hint);
  else
    loading.problem(Severity::kError, given.place,
                    fmt::format("{} = {} is not supported{}", given.path, shown, why), hint);
}

/// Keys that have no effect, because DeepSpeed does not read them unless another one is set, or
/// because another one does the same here. Keys are applied in alphabetical order.
bool is_idle(const std::string& path, const Loading& loading) {
  if (path == "torch_autocast.enabled")
    return loading.result.config.precision.bf16 || loading.result.config.precision.fp16;
  if (path == "seq_parallel_communication_data_type")
    return loading.number("parallelism.sequence_parallel_size", 1) <= 1;
  if (path == "pipeline.partition")
    return loading.number("parallelism.pipeline_parallel_size", 1) <= 1;
  return (path == "activation_checkpointing.partition_activations" ||
          path == "tensor_parallel.partition_config") &&
         loading.number("parallelism.tensor_parallel_size", 1) <= 1;
}

/// Refuses a value that needs a feature that is not built. The row's `off_json` is the value that
/// does not need it.
bool refuse_by_class(const Given& given, const Value& value, Loading& loading) {
  const Field& field = *given.field;
  if (field.zero_stage > loading.number("zero_optimization.stage", 0)) return true;  // check_zero
  if (is_idle(given.path, loading)) {
    if (value.json != false) loading.ignored.push_back(given.path);
    return true;
  }
  if (value.choice && value.choice->key_class > KeyClass::kIgnored) {
    refuse(given, value.choice->key_class, json_text(value.json), "", value.choice->hint, loading);
    return true;
  }
  const bool guarded = field.key_class == KeyClass::kError ||
                       (field.key_class == KeyClass::kNotBuilt && !field.off_json.empty());
  if (!guarded || is_off(field, value.json)) return false;
  refuse(given, field.key_class, json_text(value.json), ": " + field.help, field.hint, loading);
  return true;
}

/// Whether the user should know that a key has no effect. `false` switches something off.
bool is_ignored(const Field& field, const Json& value) {
  return field.key_class == KeyClass::kIgnored && value != false;
}

}  // namespace

Origin origin_of(const Place& place) {
  if (place.file.empty()) return {OriginKind::kFlag, "--" + dotted(place.pointer)};
  return {OriginKind::kFile, fmt::format("{}:{}", place.file, place.line)};
}

void apply(const Given& as_given, Loading& loading) {
  Given given = as_given;
  const Field& field = *given.field;
  if (given.value.is_null()) {
    loading.origins[given.path] = origin_of(given.place);
    return;
  }
  if (resolve_auto(given, loading)) return;
  Value value = to_value(field, given.value);
  if (!value.problem.empty()) {
    loading.problem(Severity::kError, given.place, fmt::format("{} {}", given.path, value.problem),
                    value.hint);
    return;
  }
  if (!value.notice.empty())
    loading.problem(Severity::kNotice, given.place,
                    fmt::format("{}: {}", given.path, value.notice));
  loading.given_keys[given.path].value = value.json;
  if (!loading.has_origin(given.path)) loading.origins[given.path] = origin_of(given.place);
  if (refuse_by_class(given, value, loading) && !field.slot) return;
  if (field.slot) store(field.slot(loading.config()), value.json);
  if (is_ignored(field, value.json) && !given.path.starts_with("model."))
    loading.ignored.push_back(given.path);
}

void apply_given_keys(Loading& loading) {
  for (const auto& [path, given] : loading.given_keys)
    if (!path.starts_with("model."))
      apply(given, loading);
    else if (is_ignored(*given.field, given.value))
      loading.ignored.push_back(path);  // not for keys of an HF file, which the user did not write
}

}  // namespace hgt
