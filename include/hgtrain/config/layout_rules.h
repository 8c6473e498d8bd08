#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hgt {

struct Config;
struct ModelConfig;

/// What a message calls a key of the model; none: as the model's family does.
using KeyName = std::function<std::string(const std::string& key)>;

/// Why tensor ranks cannot share the model's heads and MLP equally; "" if they can. Several ranks
/// may have the same key/value head; any vocabulary fits.
std::string tensor_misfit(const ModelConfig& model, std::int64_t size, const KeyName& name = {});

/// Why the config's layers cannot be split into its (virtual) pipeline stages; "" if they can.
std::string pipeline_misfit(const Config& config);
/// The same of pipeline_layer_split, which may be empty.
std::string layer_split_misfit(const Config& config);

/// Something that a layout asks for and cannot have: the key, and a sentence.
struct LayoutProblem {
  std::string key;
  std::string message;
};

/// All that keeps workers, however many, from sharing the model and its sequences as the config
/// says. A size that is not known yet (0) keeps them from nothing.
std::vector<LayoutProblem> layout_problems(const Config& config, const KeyName& name = {});

}  // namespace hgt
