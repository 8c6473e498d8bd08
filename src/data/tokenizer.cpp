#include "hgtrain/data/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/hf_folder.h"

#include "bpe_tokenizer.h"
#include "byte_tokenizer.h"

namespace hgt {

namespace {

constexpr std::int64_t kMaxTokenizerBytes = std::int64_t{1} << 28;

/// The name of the token that ends a text: "eos_token" of tokenizer_config.json or
/// special_tokens_map.json; "" if neither has it.
std::string end_of_text_in(const std::string& path, const std::string& text) {
  const auto json = try_parse_json<nlohmann::json>(text);
  if (json.is_discarded() || !json.is_object())
    throw Error(ErrorKind::kData, fmt::format("{} is not a JSON object", path));
  const auto eos = json.find("eos_token");
  if (eos == json.end()) return "";
  if (eos->is_string()) return eos->get<std::string>();
  return eos->is_object() ? eos->value("content", "") : "";
}

/// Among the names that model families use, the one that this tokenizer has.
std::string usual_end_of_text(const TokenizerParts& parts) {
  for (const std::string_view usual : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"})
    for (const auto& [name, id] : parts.names)
      if (name == usual) return name;
  return "";
}

/// The tokenizer.json that `name` is, or has if it is a folder. Error(kConfig) if there is none.
std::string file_of(const std::string& name) {
  const bool in_folder = is_folder(name, ErrorKind::kConfig);
  const std::string path = in_folder ? name + "/tokenizer.json" : name;
  if (path_exists(path, ErrorKind::kConfig)) return path;
  if (in_folder)
    throw Error(ErrorKind::kConfig, fmt::format("{} has no tokenizer.json", name),
                "copy the model's tokenizer.json there");
  throw Error(
      ErrorKind::kConfig, fmt::format("there is no tokenizer {}", name),
      "hgtrain downloads nothing: use byte, a folder with a tokenizer.json, or the path of one");
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_json(const std::string& path) {
  std::string text = read_file(path, kMaxTokenizerBytes);
  try {
    TokenizerParts parts = parse_tokenizer_json(text);
    std::vector<std::pair<std::string, std::string>> files = {{"tokenizer.json", std::move(text)}};
    std::string end_of_text;
    for (const std::string& name : tokenizer_file_names(parent_folder(path))) {
      const std::string companion = parent_folder(path) + "/" + name;
      if (name != "tokenizer.json")
        files.emplace_back(name, read_file(companion, kMaxTokenizerBytes));
    }
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
      for (const auto& [companion, content] : files)
        if (companion == name && end_of_text.empty())
          end_of_text = end_of_text_in(parent_folder(path) + "/" + name, content);
    if (end_of_text.empty()) end_of_text = usual_end_of_text(parts);
    return make_bpe_tokenizer(std::move(parts), end_of_text, std::move(files));
  } catch (Error& e) {
    e.in(path);
    throw;
  }
}

std::unique_ptr<Tokenizer> Tokenizer::from_folder(const std::string& folder) {
  const std::string path = file_of(folder);
  if (read_file(path, kMaxTokenizerBytes) == byte_tokenizer_json()) return byte();
  return from_json(path);
}

std::unique_ptr<Tokenizer> Tokenizer::open(const std::string& name) {
  if (name == "byte") return byte();
  if (is_folder(name, ErrorKind::kConfig)) return from_folder(name);
  return from_json(file_of(name));
}

bool is_same_tokenizer(const std::string& a, const std::string& b) {
  const auto text_of = [](const std::string& name) {
    if (name == "byte") return byte_tokenizer_json();
    return read_file(file_of(name), kMaxTokenizerBytes);
  };
  const std::string text_a = text_of(a), text_b = text_of(b);
  return text_a == text_b || tokenizer_identity(text_a) == tokenizer_identity(text_b);
}

}  // namespace hgt
