#include "hgtrain/config/hf_folder.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;
using Names = std::vector<std::string>;

TEST_CASE("all files that transformers reads are found, without weights and other files") {
  const TemporaryFolder folder;
  make_folders(folder / "additional_chat_templates");
  make_folders(folder / "custom_generate");
  make_folders(folder / "tokenizer");
  for (const char* name : {"tokenizer.json",
                           "tokenizer_config.json",
                           "tokenizer.model",
                           "special_tokens_map.json",
                           "added_tokens.json",
                           "vocab.json",
                           "merges.txt",
                           "chat_template.jinja",
                           "qwen.tiktoken",
                           "additional_chat_templates/rag.jinja",
                           "additional_chat_templates/notes.txt",
                           "preprocessor_config.json",
                           "generation_config.json",
                           "custom_generate/generate.py",
                           "model.safetensors",
                           "pytorch_model.bin",
                           "tokenizer.safetensors",
                           "README.md",
                           "config.json",
                           "train.py",
                           "optimizer.safetensors",
                           "manifest.json"})
    write_new_file(folder / name, "{}");
  CHECK(tokenizer_file_names(folder.path()) ==
        Names{"added_tokens.json", "additional_chat_templates/rag.jinja", "chat_template.jinja",
              "merges.txt", "preprocessor_config.json", "qwen.tiktoken", "special_tokens_map.json",
              "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json"});
  CHECK(model_file_names(folder.path()) ==
        Names{"custom_generate/generate.py", "generation_config.json"});
}

TEST_CASE("code belongs to the model if a config's auto_map names it") {
  const TemporaryFolder folder;
  write_new_file(folder / "modeling_x.py", "");
  CHECK(model_file_names(folder.path()).empty());
  write_new_file(folder / "config.json", R"({"auto_map": {"AutoModel": "modeling_x.X"}})");
  CHECK(model_file_names(folder.path()) == Names{"modeling_x.py"});
}

TEST_CASE("a folder that does not exist has no files") {
  for (const char* folder : {"", "no/such/folder"}) {
    CHECK(tokenizer_file_names(folder).empty());
    CHECK(model_file_names(folder).empty());
  }
}
