#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/load.h"

namespace hgt {

/// "used", "noticed", "not_built", "error": what the schema and `config check` call a class.
const char* name_of(KeyClass key_class);

/// The whole file as JSON Schema (draft 2020-12), from the same table that reads it.
nlohmann::ordered_json config_schema();

/// The table as text, a line a key: path, default, what it is; ignored keys only where `all`.
std::string config_keys_text(bool all);

/// Paths of the keys that a config may set, for completion.
std::vector<std::string> config_key_paths();

/// Those of the keys that are called `name` in their section, or also so: "training.seed" and
/// "data.seed" for "seed".
std::vector<std::string> config_paths_of(std::string_view name);

/// True for a key outside any section ("train_batch_size"), by any of its names.
bool is_toplevel_key(std::string_view name);

/// True for a section ("scheduler").
bool is_section(std::string_view name);

}  // namespace hgt
