// Names: transformers' utils/hub.py, tokenization_utils_base.py, processing_utils.py, and the
// VOCAB_FILES_NAMES of its tokenizers.
#include "hgtrain/config/hf_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr std::array kTokenizerFiles{"special_tokens_map.json",
                                     "added_tokens.json",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "vocab.json",
                                     "vocab.txt",
                                     "merges.txt",
                                     "tekken.json",
                                     "spiece.model",
                                     "spm.model",
                                     "sentencepiece.model",
                                     "sentencepiece.bpe.model",
                                     "tiktoken.model",
                                     "preprocessor_config.json",
                                     "processor_config.json",
                                     "video_preprocessor_config.json",
                                     "audio_tokenizer_config.json"};

/// tokenizer.json, tokenizer_config.json, tokenizer.model, tokenizer.4.0.json, ...; no weights.
bool is_tokenizer_file(const std::string& name) {
  return std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end() ||
         (name.starts_with("tokenizer") && !name.ends_with(".safetensors")) ||
         name.ends_with(".tiktoken");
}

/// The files of FOLDER/BELOW with names that `is_wanted`.
template <class Wanted>
std::vector<std::string> files_of(const std::string& folder, const std::string& below,
                                  const Wanted& is_wanted) {
  const std::string place = below.empty() ? folder : folder + "/" + below;
  std::error_code ignored;
  std::vector<std::string> names;
  if (folder.empty() || !fs::is_directory(place, ignored)) return names;
  for (const std::string& name : list_folder(place))
    if (is_wanted(name) && fs::is_regular_file(place + "/" + name, ignored))
      names.push_back(below.empty() ? name : below + "/" + name);
  return names;
}

bool has_auto_map(const std::string& path) {
  constexpr std::int64_t kMaxBytes = 16 << 20;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const auto json = try_parse_json<nlohmann::json>(read_file(path, kMaxBytes));
  return json.is_object() && json.contains("auto_map");
}

}  // namespace

std::string tokenizer_folder(const std::string& path) {
  return path.ends_with(".json") ? parent_folder(path) : path;
}

std::vector<std::string> tokenizer_file_names(const std::string& folder) {
  std::vector<std::string> names = files_of(folder, "", is_tokenizer_file);
  for (std::string& name : files_of(folder, "additional_chat_templates",
                                    [](const auto& name) { return name.ends_with(".jinja"); }))
    names.push_back(std::move(name));
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> model_file_names(const std::string& folder) {
  const bool has_code =
      has_auto_map(folder + "/config.json") || has_auto_map(folder + "/tokenizer_config.json");
  std::vector<std::string> names = files_of(folder, "", [&](const std::string& name) {
    return name == "generation_config.json" || (has_code && name.ends_with(".py"));
  });
  for (std::string& name : files_of(folder, "custom_generate", [](const auto& name) {
         return name.ends_with(".py") || name == "requirements.txt";
       }))
    names.push_back(std::move(name));
  std::ranges::sort(names);
  return names;
}

}  // namespace hgt
