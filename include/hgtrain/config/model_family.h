#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// A family that is built: its `model_type`, and its class in transformers.
struct FamilyName {
  const char *type, *architecture;
};
inline constexpr FamilyName kFamilies[] = {{"gpt2", "GPT2LMHeadModel"},
                                           {"llama", "LlamaForCausalLM"},
                                           {"mistral", "MistralForCausalLM"},
                                           {"qwen2", "Qwen2ForCausalLM"},
                                           {"qwen3", "Qwen3ForCausalLM"}};

/// The defaults of a family's config class in transformers, with the names of our table.
nlohmann::ordered_json family_defaults(const std::string& family);

/// The name that a family's config.json has for a size of our table: "n_head" is GPT-2's for
/// "num_attention_heads".
std::string family_key(const std::string& family, const std::string& key);

/// One name for each activation function that has several names in transformers.
std::string activation_name(const std::string& name);
/// The activations that are built for a family.
std::vector<std::string> activations_of(const std::string& family);

}  // namespace hgt
