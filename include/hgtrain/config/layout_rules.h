#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hgt {

struct Config;
struct ModelConfig;

/// The name of a model key in messages. If the function is empty, the names of the model's family
/// are used.
using KeyName = std::function<std::string(const std::string& key)>;

/// Why tensor ranks cannot share the model's heads and MLP equally; "" if they can. Several ranks
/// may have the same key/value head; any vocabulary fits.
std::string tensor_misfit(const ModelConfig& model, std::int64_t size, const KeyName& name = {});

/// Why the config's layers cannot be split into its (virtual) pipeline stages; "" if they can.
std::string pipeline_misfit(const Config& config);
/// The same for pipeline_layer_split, which may be empty.
std::string layer_split_misfit(const Config& config);

/// Something that a layout asks for and cannot have: the key, and a sentence.
struct LayoutProblem {
  std::string key;
  std::string message;
};

/// Everything that keeps any number of workers from sharing the model and its sequences as the
/// config says. Sizes that are not known yet (0) are not checked.
std::vector<LayoutProblem> layout_problems(const Config& config, const KeyName& name = {});

}  // namespace hgt
