#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace hgt {

/// The defaults of a family's config class in transformers, with the names of our table.
nlohmann::ordered_json family_defaults(const std::string& family);

/// "llama" for "LlamaForCausalLM", "" if it is not supported.
std::string family_of_architecture(const std::string& architecture);

/// One name for each activation function that has several names in transformers.
std::string activation_name(const std::string& name);
/// The activations that are built for a family.
std::vector<std::string> activations_of(const std::string& family);

}  // namespace hgt
