#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace hgt {

/// transformers' defaults of a family's config class, under the names of our table.
nlohmann::ordered_json family_defaults(const std::string& family);

/// "llama" of "LlamaForCausalLM", "" of what is not supported.
std::string family_of_architecture(const std::string& architecture);

/// One name for each function that transformers knows by several.
std::string activation_name(const std::string& name);
/// The activations that are built for a family.
std::vector<std::string> activations_of(const std::string& family);

}  // namespace hgt
