#include "checkpoint_files.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/hf_config.h"

#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

namespace {

std::string text_of(const SourceFiles& source, const std::string& name) {
  for (const CopiedFile& file : source.files)
    if (file.name == name) return file.text;
  return "absent";
}

std::string text(const std::string& path) {
  return read_file(path, 1 << 20);
}

}  // namespace

TEST_CASE("the files of a tokenizer come from folders that have the same one") {
  const TemporaryFolder checkpoint, tokenizer, model;
  write_new_file(tokenizer / "tokenizer.json", "{1}");
  write_new_file(model / "tokenizer.json", "{1}");
  write_new_file(model / "chat_template.jinja", "of the model");
  write_new_file(model / "generation_config.json", "{}");
  write_new_file(model / "config.json", R"({"model_type": "gpt2"})");
  SourceFiles source = source_files("", tokenizer.path(), model.path());
  CHECK(text_of(source, "tokenizer.json") == "{1}");
  CHECK(text_of(source, "chat_template.jinja") == "of the model");
  CHECK(text_of(source, "generation_config.json") == "{}");
  CHECK(source.config == R"({"model_type": "gpt2"})");

  write_file_atomically(model / "tokenizer.json", "{2}");
  source = source_files("", tokenizer.path(), model.path());
  CHECK(text_of(source, "chat_template.jinja") == "absent");
  CHECK(text_of(source, "generation_config.json") == "{}");
  source = source_files("", "", model.path());
  CHECK(text_of(source, "tokenizer.json") == "{2}");
  CHECK(text_of(source, "chat_template.jinja") == "of the model");
}

TEST_CASE("a resumed run keeps the files of its checkpoint, also if their folders are gone") {
  const TemporaryFolder checkpoint, model;
  write_new_file(checkpoint / "tokenizer.json", "{1}");
  write_new_file(checkpoint / "chat_template.jinja", "as it was");
  write_new_file(checkpoint / "config.json", R"({"model_type": "gpt2", "pad_token_id": 3})");
  write_new_file(model / "tokenizer.json", "{1}");
  write_new_file(model / "chat_template.jinja", "edited since");
  write_new_file(model / "merges.txt", "new");
  for (const std::string& folder : {model.path(), std::string("gone")}) {
    const SourceFiles source = source_files(checkpoint.path(), folder, folder);
    CHECK(text_of(source, "tokenizer.json") == "{1}");
    CHECK(text_of(source, "chat_template.jinja") == "as it was");
    CHECK(text_of(source, "merges.txt") == (folder == "gone" ? "absent" : "new"));
    CHECK(source.config == R"({"model_type": "gpt2", "pad_token_id": 3})");
  }
}

TEST_CASE("a generation_config.json that cannot be read is refused at the start") {
  const TemporaryFolder model;
  write_new_file(model / "generation_config.json", "{");
  const Error error = error_of([&] { source_files("", "", model.path()); });
  CHECK(error.kind() == ErrorKind::kData);
  CHECK_THAT(error.message(), Catch::Contains(model.path() + "/generation_config.json"));
}

TEST_CASE("a checkpoint has its source's files and keys, and its own numbers") {
  const TemporaryFolder model, run;
  TinyRun tiny;
  Json config = hf_config_json(tiny.model);
  config["pad_token_id"] = 7;
  config["bos_token_id"] = 0;
  config["eos_token_id"] = {1, 2};
  const std::string generation = R"({"eos_token_id": [1, 2], "top_k": 5})";
  make_folders(model / "additional_chat_templates");
  write_new_file(model / "config.json", config.dump());
  write_new_file(model / "generation_config.json", generation);
  write_new_file(model / "additional_chat_templates/rag.jinja", "{{ x }}");
  write_new_file(model / "model.safetensors", "no weights are copied");
  tiny.model.eos_token_id = 1;
  tiny.model.bos_token_id = 0;
  const auto save = [&](std::int64_t step) {
    CheckpointWriter::Options options;
    options.run_dir = run.path();
    options.model_folder = model.path();
    options.async_save = false;
    const auto writer = CheckpointWriter::create(tiny.model, tiny.table, options);
    tiny.at(step);
    writer->save(tiny.state, tiny.flat());
    REQUIRE_FALSE(writer->wait());
    const std::string folder = list_checkpoints(run.path()).front();
    CHECK(tiny.holds(folder, step));
    return folder;
  };
  const std::string first = save(1);
  const Json saved = parse_json<Json>(text(first + "/config.json"));
  CHECK(saved["pad_token_id"] == 7);
  CHECK(saved["eos_token_id"] == Json({1, 2}));
  CHECK(text(first + "/generation_config.json") == generation);
  CHECK(text(first + "/additional_chat_templates/rag.jinja") == "{{ x }}");
  CHECK(text(first + "/model.safetensors") != "no weights are copied");

  // A run that resumes without model.init does not know the tokens.
  tiny.model.eos_token_id = tiny.model.bos_token_id = std::nullopt;
  const std::string resumed = save(2);
  CHECK(text(resumed + "/generation_config.json") == generation);
  CHECK(parse_json<Json>(text(resumed + "/config.json")) == saved);

  tiny.model.eos_token_id = 3;
  const Json changed = parse_json<Json>(text(save(3) + "/generation_config.json"));
  CHECK(changed["eos_token_id"] == 3);
  CHECK(changed["top_k"] == 5);
}
