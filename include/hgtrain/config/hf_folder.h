#pragma once

#include <string>
#include <vector>

namespace hgt {

// What transformers reads from a model folder beside weights and config.json, by names within the
// folder ("additional_chat_templates/rag.jinja"), sorted. Only regular files are listed, links
// followed; nothing of a folder that is not there, or of "".

/// The tokenizer: its vocabulary, settings, chat templates, and the processors that wrap it.
std::vector<std::string> tokenizer_file_names(const std::string& folder);

/// What belongs to the model: generation_config.json, custom_generate/, and the code that the
/// auto_map of a config names.
std::vector<std::string> model_file_names(const std::string& folder);

}  // namespace hgt
