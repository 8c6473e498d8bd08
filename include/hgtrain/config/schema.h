#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/key_report.h"

namespace hgt {

/// "used", "ignored", "not_built", "error": a class's name in the schema and `config check`.
const char* name_of(KeyClass key_class);

/// The whole file as JSON Schema (draft 2020-12), from the same table that reads it.
nlohmann::ordered_json config_schema();

/// The table as text, one line per key: path, default, meaning; ignored keys only if `all`.
std::string config_keys_text(bool all);

/// Paths of the keys that a config may set, for completion.
std::vector<std::string> config_key_paths();

/// Paths of the keys that have this name, or this other spelling, in their section:
/// "training.seed" and "data.seed" for "seed".
std::vector<std::string> config_paths_of(std::string_view name);

/// True for a key outside any section ("train_batch_size"), by any of its names, unless it is one
/// of those without effect whose values are not known either ("tp").
bool is_toplevel_key(std::string_view name);

/// True for a key whose value is true or false ("parallelism.sequence_parallel").
bool is_switch(const std::string& path);

/// True for a section ("scheduler").
bool is_section(std::string_view name);

}  // namespace hgt
