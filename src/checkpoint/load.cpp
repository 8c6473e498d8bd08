#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/config/run_checkpoints.h"

#include "checkpoint_files.h"
#include "tensor_folder.h"
#include "training_state.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMaxStateBytes = 1 << 20;

/// Throws unless the checkpoint belongs to this very model, because tensors may fit another model,
/// too. Its weights may have another type, which is returned, and its texts may end with another
/// token.
DType check_model(const std::string& path, const ModelConfig& model) {
  const std::string text = read_file(path, kMaxStateBytes);
  const auto saved = hf_config_json(parse_hf_config(text, path));
  auto wanted_config = hf_config_json(model);
  for (const char* free : {"torch_dtype", "bos_token_id", "eos_token_id"})
    wanted_config.erase(free);
  std::vector<std::string> differences;
  for (const auto& [key, wanted] : wanted_config.items())
    if (!saved.contains(key) || saved[key] != wanted)
      differences.push_back(fmt::format("{}: {} there, {} now", key,
                                        saved.contains(key) ? saved[key].dump() : "nothing",
                                        wanted.dump()));
  if (!differences.empty())
    throw Error(
        ErrorKind::kConfig,
        fmt::format("{} belongs to another model:\n    {}", path, fmt::join(differences, "\n    ")),
        "resume with the config the run was started with, or start a new run with another "
        "--run_dir");
  const std::string weights = parse_json<nlohmann::json>(text).value("torch_dtype", "float32");
  return weights == "bfloat16" ? DType::kBF16 : weights == "float16" ? DType::kF16 : DType::kF32;
}

/// The prefixes of the tensors' names, up to the first dot: those of the masters and of each
/// moment.
std::set<std::string> prefixes_of(const TensorFolder& optimizer) {
  std::set<std::string> prefixes;
  optimizer.for_each([&](const SafetensorsFile&, const TensorInfo& tensor) {
    prefixes.insert(tensor.name.substr(0, tensor.name.find('.') + 1));
  });
  return prefixes;
}

void check_optimizer(const std::string& folder, std::set<std::string> saved,
                     const FlatState& flat) {
  saved.erase(kMasterPrefix);
  std::set<std::string> wanted;
  for (const FlatState::Moment& moment : flat.moments) wanted.insert(moment.name + ".");
  if (saved == wanted) return;
  const auto listed = [](const std::set<std::string>& prefixes) {
    std::vector<std::string> names;
    for (const std::string& p : prefixes) names.push_back(p.substr(0, p.size() - 1));
    return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
  };
  throw Error(ErrorKind::kConfig,
              fmt::format("{} belongs to another optimizer: its state is {}, this run's is {}",
                          folder, listed(saved), listed(wanted)),
              "resume with the optimizer the run was started with, or start a new run from these "
              "weights with model.init and another --run_dir");
}

std::string same_name(const std::string& name) {
  return name;
}

bool has_average(const CheckpointManifest& manifest) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [](const auto& file) { return file.first.starts_with("ema"); });
}

}  // namespace

/// A checkpoint that can be read.
struct CheckpointReader::Contents {
  /// The tensors that are read from one kind of files.
  struct Kind {
    TensorReads reads;
    /// Where each tensor is read to, by its name, unless another one is read into the same place
    /// later.
    std::map<std::string, std::pair<const FlatTensor*, const Parameter*>> places;
  };

  Contents(std::string path, const ModelConfig& model, const ParameterTable& parameters,
           const FlatState& state)
      : folder(std::move(path)),
        flat(state),
        table(parameters),
        manifest(read_manifest(folder)),
        loaded{parse_training_state(read_file(folder + "/" + kTrainingStateName, kMaxStateBytes)),
               check_model(folder + "/config.json", model), has_average(manifest)} {
    TensorFolder optimizer = TensorFolder::open(folder, "optimizer");
    check_headers(optimizer, manifest);
    const std::set<std::string> prefixes = prefixes_of(optimizer);
    check_optimizer(folder, prefixes, flat);
    const bool has_masters = prefixes.contains(kMasterPrefix);
    add(TensorFolder::open(folder, "model"), {{"", &flat.parameters}}, !has_masters);
    std::vector<std::pair<std::string, const FlatTensor*>> of_optimizer;
    if (has_masters) of_optimizer.emplace_back(kMasterPrefix, &flat.parameters);
    for (const FlatState::Moment& moment : flat.moments)
      of_optimizer.emplace_back(moment.name + ".", &moment.values);
    add(std::move(optimizer), of_optimizer, true);
    if (loaded.has_ema && flat.ema) add(TensorFolder::open(folder, "ema"), {{"", &flat.ema}}, true);
  }

  /// The tensors of the parameters with each prefix, and the buffers in which they belong. `last`:
  /// nothing else is read into these.
  void add(TensorFolder source,
           const std::vector<std::pair<std::string, const FlatTensor*>>& buffers, bool last) {
    std::map<std::string, Destination> destinations;
    std::map<std::string, std::pair<const FlatTensor*, const Parameter*>> places;
    for (const auto& [prefix, values] : buffers) {
      destinations.merge(destinations_of(table, *values, flat.slices, flat.tensor, prefix));
      if (!last) continue;
      for (const Parameter& p : table.parameters) places[prefix + p.name] = {values, &p};
    }
    kinds.push_back({TensorReads(std::move(source), std::move(destinations), same_name, &manifest,
                                 ErrorKind::kConfig),
                     std::move(places)});
  }

  const std::string folder;
  const FlatState flat;
  const ParameterTable& table;
  const CheckpointManifest manifest;
  const LoadedCheckpoint loaded;
  std::vector<Kind> kinds;
};

CheckpointReader::CheckpointReader(const std::string& folder, const ModelConfig& model,
                                   const ParameterTable& table, const FlatState& flat) {
  const char* hint = "name a folder RUN_DIR/checkpoints/step_N";
  if (!is_folder(folder))
    throw Error(ErrorKind::kConfig, fmt::format("there is no checkpoint {}", folder), hint);
  if (!path_exists(folder + "/" + kManifestName))
    throw_offering_before(
        Error(ErrorKind::kData,
              fmt::format("{} is not a whole checkpoint: it has no {}", folder, kManifestName)),
        folder);
  try {
    contents_ = std::make_unique<Contents>(folder, model, table, flat);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kData) throw_offering_before(e, folder);
    throw;
  }
}

CheckpointReader::~CheckpointReader() = default;

const LoadedCheckpoint& CheckpointReader::loaded() const {
  return contents_->loaded;
}

void CheckpointReader::read(const OnRead& on_read) const {
  try {
    for (const auto& [reads, places] : contents_->kinds)
      reads.read(true, [&](const TensorInfo& tensor) {
        const auto place = places.find(tensor.name);
        if (on_read && place != places.end()) on_read(*place->second.first, *place->second.second);
      });
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kData) throw_offering_before(e, contents_->folder);
    throw;
  }
}

}  // namespace hgt
