#pragma once

#include <string>
#include <vector>

namespace hgt {

/// The folder that `path` names, the value of tokenizer.path: a folder, or the tokenizer.json in
/// one.
std::string tokenizer_folder(const std::string& path);

// The files that transformers reads from a model folder, other than weights and config.json: sorted
// names relative to the folder ("additional_chat_templates/rag.jinja"). Only regular files are
// listed; links are followed. The list is empty if the folder does not exist or is "".

/// The tokenizer: its vocabulary, settings, chat templates, and the processors that wrap it.
std::vector<std::string> tokenizer_file_names(const std::string& folder);

/// The files of the model: generation_config.json, custom_generate/, and the code that the
/// auto_map of a config names.
std::vector<std::string> model_file_names(const std::string& folder);

}  // namespace hgt
