#include "checkpoint_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/hf_folder.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/run_checkpoints.h"

#include "training_state.h"

namespace hgt {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxCopiedBytes = 256 << 20;

/// The parts of a parameter that a tensor rank writes on its own, or that it has of a parameter
/// that its group assembles, because the runs of a part along axis 1 are no longer than a row.
void add_parts(const Parameter& p, const FlatTensor& flat, const FlatState& state,
               NamedTensor& tensor) {
  const TensorRank at = state.tensor;
  const std::vector<TensorPart> parts = parts_of(p, flat, state.slices, at);
  if (p.split.axis > 0 && at.size > 1) {
    tensor.parts = parts;
    for (TensorRank other{0, at.size}; other.rank < at.size; ++other.rank)
      tensor.of_ranks.push_back(p.split.is_first(other) ? p.placement(other)
                                                        : Placement{.used = 0});
  } else if (p.split.is_first(at)) {
    for (const TensorPart& part : parts)
      std::ranges::copy(part.runs(), std::back_inserter(tensor.parts));
  }
}

/// The parameters in a flat buffer, to be written in `dtype`, or in the buffer's own type if none
/// is given.
std::vector<NamedTensor> tensors_of(const ParameterTable& table, const FlatTensor& flat,
                                    const FlatState& state, const std::string& prefix,
                                    std::optional<DType> dtype = {}) {
  std::vector<NamedTensor> out;
  for (const Parameter& p : table.parameters) {
    out.push_back({prefix + p.name, p.shape, dtype.value_or(flat.values.dtype()), {}, {}});
    add_parts(p, flat, state, out.back());
  }
  return out;
}

/// The masters, if there are any, and the moments.
std::vector<NamedTensor> optimizer_tensors(const ParameterTable& table, const FlatState& flat) {
  std::vector<NamedTensor> out;
  if (flat.weights_dtype != flat.parameters.values.dtype())
    out = tensors_of(table, flat.parameters, flat, kMasterPrefix);
  for (const FlatState::Moment& moment : flat.moments)
    for (NamedTensor& tensor : tensors_of(table, moment.values, flat, moment.name + "."))
      out.push_back(std::move(tensor));
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

/// A generation config from the model's config, for a model without one.
Json generation_config(const Json& config) {
  return {{"_from_model_config", true},
          {"bos_token_id", config.at("bos_token_id")},
          {"eos_token_id", config.at("eos_token_id")}};
}

/// The generation config in `text` (the source's), with the keys of `changed` set as in `config`.
/// If `changed` is empty, the text is returned unchanged, byte for byte.
std::string generation_config(const std::string& text, const std::vector<std::string>& changed,
                              const Json& config) {
  Json generation = parse_json<Json>(text);
  for (const std::string& key : changed) generation[key] = config.at(key);
  return changed.empty() ? text : generation.dump(2) + "\n";
}

void check_generation_config(const std::string& folder) {
  const std::string name = "generation_config.json", text = text_of(folder, name);
  if (!text.empty() && !try_parse_json<Json>(text).is_object())
    throw Error(ErrorKind::kData, fmt::format("{}/{} is not a JSON object", folder, name),
                "correct it, or remove it: it says how to sample from the model");
}

/// Writes config.json and all files that are copied.
void write_texts(CheckpointManifest& manifest, const std::string& folder, ModelConfig model,
                 DType weights, const SourceFiles& source) {
  std::vector<std::string> changed;  // special tokens that differ from the source's
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

TensorFiles plan_tensor_files(const ParameterTable& table, const FlatState& flat,
                              std::int64_t max_shard_bytes) {
  const auto weights = [&](const FlatTensor& values, DType dtype) {
    return tensors_of(table, values, flat, "", dtype);
  };
  TensorFiles out;
  out.emplace_back(
      "model", plan_files("model", weights(flat.parameters, flat.weights_dtype), max_shard_bytes));
  out.emplace_back("optimizer",
                   plan_files("optimizer", optimizer_tensors(table, flat), max_shard_bytes));
  if (flat.ema)
    out.emplace_back(
        "ema", plan_files("ema", weights(flat.ema, flat.ema.values.dtype()), max_shard_bytes));
  return out;
}

CheckpointManifest create_checkpoint_files(const std::string& folder, const ModelConfig& model,
                                           const CheckpointWriter::Options& options,
                                           const SourceFiles& source, const TrainingState& state,
                                           DType weights_dtype, CheckpointWriter::Reason reason,
                                           const TensorFiles& files) {
  CheckpointManifest manifest{
      state.step, options.layout, {}, reason == CheckpointWriter::Reason::kBest};
  for (const auto& [stem, planned] : files) create_files(folder, stem, planned, manifest);
  write_texts(manifest, folder, model, weights_dtype, source);
  write_listed_file(manifest, folder, kTrainingStateName, training_state_text(state));
  return manifest;
}

std::vector<PlacedRange> write_slices(const std::string& folder, const TensorFiles& files,
                                      Communicator* tensor) {
  PartsWriter writer(tensor);
  std::vector<PlacedRange> out;
  std::int64_t number = 0;
  for (const auto& [stem, planned] : files)
    for (const PlannedFile& file : planned) {
      for (const WrittenRange& written : writer.write(folder + "/" + file.name, file.tensors))
        out.push_back({number, written});
      ++number;
    }
  writer.finish();
  return out;
}

void write_manifest(const std::string& folder, CheckpointManifest manifest,
                    const TensorFiles& files, std::vector<PlacedRange> ranges) {
  std::vector<const PlannedFile*> by_number;
  for (const auto& [stem, planned] : files)
    for (const PlannedFile& file : planned) by_number.push_back(&file);
  std::ranges::sort(ranges, {}, [](const PlacedRange& range) {
    return std::tuple(range.file, range.written.tensor, range.written.range.begin);
  });
  for (const auto& [file, written] : ranges) {
    const PlannedFile& planned = *by_number[static_cast<std::size_t>(file)];
    const std::string& tensor = planned.tensors[static_cast<std::size_t>(written.tensor)].name;
    manifest.files[planned.name].tensors[tensor].push_back(written.range);
  }
  write_new_file(folder + "/" + kManifestName, manifest_text(manifest));
}

void throw_offering_before(const Error& error, const std::string& folder) {
  if (!error.hint().empty()) throw error;  // it already says what to do
  std::string hint =
      "there is no checkpoint before it in this run; if its weights are whole, a new run can start "
      "from them with model.init";
  const std::int64_t step = step_of(std::filesystem::path(folder).filename().string());
  for (const std::string& other : list_checkpoints(parent_folder(parent_folder(folder)))) {
    if (step_of(std::filesystem::path(other).filename().string()) >= step) continue;
    hint = "use the checkpoint before it: " + other;
    break;
  }
  Error offering(error.kind(), error.message(), hint);
  for (const std::string& where : error.context()) offering.in(where);
  throw offering;
}

}  // namespace hgt
