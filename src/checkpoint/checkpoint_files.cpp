#include "checkpoint_files.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/hf_folder.h"

#include "tensor_folder.h"
#include "training_state.h"

namespace hgt {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxCopiedBytes = 256 << 20;

/// The parameters in a flat buffer, to be written in `dtype`, or in the buffer's own type if none
/// is given.
std::vector<NamedTensor> tensors_of(const ParameterTable& table, const Tensor& flat,
                                    const std::string& prefix, std::optional<DType> dtype = {}) {
  std::vector<NamedTensor> out;
  for (const Parameter& p : table.parameters)
    out.push_back({prefix + p.name, p.shape, flat.slice(0, p.offset, p.offset + p.numel),
                   dtype.value_or(flat.dtype())});
  return out;
}

/// "" if there is no such file.
std::string text_of(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  return !folder.empty() && path_exists(path) ? read_file(path, kMaxCopiedBytes) : "";
}

void add_missing(std::vector<CopiedFile>& files, const std::string& folder,
                 const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::ranges::find(files, name, &CopiedFile::name) == files.end())
      files.push_back({name, read_file(folder + "/" + name, kMaxCopiedBytes)});
}

/// The model's own, for a model that came without one.
Json generation_config(const Json& config) {
  return {{"_from_model_config", true},
          {"bos_token_id", config.at("bos_token_id")},
          {"eos_token_id", config.at("eos_token_id")}};
}

/// The generation config in `text` (the source's), with the keys of `changed` set as in `config`.
/// If `changed` is empty, the text is returned unchanged, byte for byte.
std::string generation_config(const std::string& text, const std::vector<std::string>& changed,
                              const Json& config) {
  Json generation = Json::parse(text);
  for (const std::string& key : changed) generation[key] = config.at(key);
  return changed.empty() ? text : generation.dump(2) + "\n";
}

void check_generation_config(const std::string& folder) {
  const std::string name = "generation_config.json", text = text_of(folder, name);
  if (!text.empty() && !Json::parse(text, nullptr, false).is_object())
    throw Error(ErrorKind::kData, fmt::format("{}/{} is no JSON object", folder, name),
                "mend it, or remove it: it says how texts of the model are drawn");
}

/// config.json and all that is copied.
void write_texts(Manifest& manifest, const std::string& folder, ModelConfig model, DType weights,
                 const SourceFiles& source) {
  std::vector<std::string> changed;  // tokens that the run has otherwise than its source
  Json config;
  if (source.config.empty()) {
    config = hf_config_json(model, weights);
  } else {
    const ModelConfig before = parse_hf_config(source.config, "config.json");
    // A run that resumes without the model.init that gave it a token keeps the token.
    if (!model.bos_token_id) model.bos_token_id = before.bos_token_id;
    if (!model.eos_token_id) model.eos_token_id = before.eos_token_id;
    if (model.bos_token_id != before.bos_token_id) changed.emplace_back("bos_token_id");
    if (model.eos_token_id != before.eos_token_id) changed.emplace_back("eos_token_id");
    config = hf_config_json(model, weights, source.config);
  }
  write_listed_file(manifest, folder, "config.json", config.dump(2) + "\n");
  std::vector<CopiedFile> files = source.files;
  const auto generation = std::ranges::find(files, "generation_config.json", &CopiedFile::name);
  if (generation == files.end())
    files.push_back({"generation_config.json", generation_config(config).dump(2) + "\n"});
  else
    generation->text = generation_config(generation->text, changed, config);
  std::set<std::string> folders;
  for (const CopiedFile& file : files) {
    if (const std::size_t slash = file.name.find('/'); slash != std::string::npos)
      make_folders(*folders.insert(folder + "/" + file.name.substr(0, slash)).first);
    write_listed_file(manifest, folder, file.name, file.text);
  }
  for (const std::string& made : folders) sync_folder(made);
}

}  // namespace

SourceFiles source_files(const std::string& checkpoint, const std::string& tokenizer,
                         const std::string& model) {
  SourceFiles out;
  const auto tokenizer_of = [](const std::string& folder) {
    return text_of(folder, "tokenizer.json");
  };
  std::string wanted;
  for (const std::string& folder : {tokenizer, checkpoint, model})
    if (wanted.empty()) wanted = tokenizer_of(folder);
  for (const std::string& folder : {checkpoint, tokenizer, model})
    if (tokenizer_of(folder) == wanted)
      add_missing(out.files, folder, tokenizer_file_names(folder));
  for (const std::string& folder : {checkpoint, model, tokenizer}) {
    check_generation_config(folder);
    add_missing(out.files, folder, model_file_names(folder));
  }
  for (const std::string& folder : {checkpoint, model})
    if (out.config.empty()) out.config = text_of(folder, "config.json");
  return out;
}

void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const SourceFiles& source, const TrainingState& state,
                            const FlatState& flat, CheckpointWriter::Reason reason) {
  Manifest manifest{state.step, options.layout, {}, reason == CheckpointWriter::Reason::kBest};
  write_texts(manifest, folder, model, flat.weights_dtype, source);
  write_tensors(folder, "model", tensors_of(table, flat.parameters, "", flat.weights_dtype),
                options.max_shard_bytes, manifest);
  std::vector<NamedTensor> moments;
  if (flat.weights_dtype != flat.parameters.dtype())
    moments = tensors_of(table, flat.parameters, kMasterPrefix);
  for (const FlatState::Moment& moment : flat.moments)
    for (NamedTensor& tensor : tensors_of(table, moment.values, moment.name + "."))
      moments.push_back(std::move(tensor));
  write_tensors(folder, "optimizer", moments, options.max_shard_bytes, manifest);
  if (flat.ema)
    write_tensors(folder, "ema", tensors_of(table, flat.ema, ""), options.max_shard_bytes,
                  manifest);

  write_listed_file(manifest, folder, kTrainingStateName, training_state_text(state));
  write_new_file(folder + "/" + kManifestName, manifest_text(manifest));
}

}  // namespace hgt
