#include "checkpoint_files.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "hgtrain/config/hf_config.h"

#include "tensor_folder.h"
#include "training_state.h"

namespace hgt {

namespace {

constexpr std::int64_t kMaxTokenizerBytes = 256 << 20;

/// Of the parameters in a flat buffer; to be written in its own type, where none is given.
std::vector<NamedTensor> tensors_of(const ParameterTable& table, const Tensor& flat,
                                    const std::string& prefix, std::optional<DType> dtype = {}) {
  std::vector<NamedTensor> out;
  for (const Parameter& p : table.parameters)
    out.push_back({prefix + p.name, p.shape, flat.slice(0, p.offset, p.offset + p.numel),
                   dtype.value_or(flat.dtype())});
  return out;
}

bool is_tokenizer_file(const std::string& name) {
  return name.starts_with("tokenizer") || name == "special_tokens_map.json" ||
         name == "added_tokens.json" || name == "vocab.json" || name == "merges.txt";
}

}  // namespace

std::vector<CopiedFile> tokenizer_files(const std::string& folder) {
  std::vector<CopiedFile> files;
  if (folder.empty()) return files;
  for (const std::string& name : list_folder(folder))
    if (is_tokenizer_file(name))
      files.push_back({name, read_file(folder + "/" + name, kMaxTokenizerBytes)});
  return files;
}

void write_checkpoint_files(const std::string& folder, const ModelConfig& model,
                            const ParameterTable& table, const CheckpointWriter::Options& options,
                            const std::vector<CopiedFile>& tokenizer, const TrainingState& state,
                            const FlatState& flat) {
  Manifest manifest{state.step, options.layout, {}};
  const nlohmann::ordered_json config = hf_config_json(model, flat.weights_dtype);
  const nlohmann::ordered_json generation{{"_from_model_config", true},
                                          {"bos_token_id", config.at("bos_token_id")},
                                          {"eos_token_id", config.at("eos_token_id")}};
  write_listed_file(manifest, folder, "config.json", config.dump(2) + "\n");
  write_listed_file(manifest, folder, "generation_config.json", generation.dump(2) + "\n");
  for (const CopiedFile& file : tokenizer)
    write_listed_file(manifest, folder, file.name, file.text);
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
