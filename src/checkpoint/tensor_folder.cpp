#include "tensor_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

namespace hgt {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxIndexBytes = 64 << 20;
constexpr std::size_t kMaxListed = 20;

std::string index_name(const std::string& stem) {
  return stem + ".safetensors.index.json";
}

/// `weight_map` of an index file: tensor name -> file name.
std::map<std::string, std::string> read_index(const std::string& path) {
  try {
    auto map = parse_json<json>(read_file(path, kMaxIndexBytes))
                   .at("weight_map")
                   .get<std::map<std::string, std::string>>();
    for (const auto& [tensor, file] : map)
      if (file.empty() || file.front() == '.' || file.find('/') != std::string::npos)
        throw Error(ErrorKind::kData, fmt::format("{} names a file outside its folder", path));
    return map;
  } catch (const json::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: {}", path, e.what()));
  }
}

[[noreturn]] void throw_no_tensors(const std::string& folder, const std::string& stem) {
  if (stem == "ema")
    throw Error(ErrorKind::kConfig, fmt::format("{} has no moving average of the weights", folder),
                "checkpoints of a run with training.ema_decay have one");
  const bool pickled = path_exists(folder + "/pytorch_model.bin") ||
                       path_exists(folder + "/pytorch_model.bin.index.json");
  throw Error(ErrorKind::kData, fmt::format("{} has no {}.safetensors", folder, stem),
              pickled
                  ? "its weights are pickles, which are never read: save them again from Python "
                    "with save_pretrained(FOLDER, safe_serialization=True)"
                  : "");
}

/// Collects everything that does not fit, to report it at once.
struct Misfits {
  std::vector<std::string> lines;
  void add(std::string line) { lines.push_back(std::move(line)); }
  void throw_if_any(const std::string& folder, ErrorKind kind) {
    if (lines.empty()) return;
    const std::size_t count = lines.size();
    if (count > kMaxListed) {
      lines.resize(kMaxListed);
      lines.push_back(fmt::format("... and {} more", count - kMaxListed));
    }
    throw Error(kind,
                fmt::format("the tensors in {} do not fit the model:\n    {}", folder,
                            fmt::join(lines, "\n    ")),
                "is `model` in the config the architecture these weights belong to?");
  }
};

/// The manifest's entry for a file. Error(kData) if the file's header is not the one it lists.
const ManifestFile& listed(const SafetensorsFile& file, const CheckpointManifest& manifest) {
  const auto entry = manifest.files.find(std::filesystem::path(file.path()).filename().string());
  if (entry == manifest.files.end())
    throw Error(ErrorKind::kData, fmt::format("{} is not in the manifest", file.path()));
  if (file.header_hash() != entry->second.hash)
    throw Error(
        ErrorKind::kData,
        fmt::format("{} is damaged: its header does not have the manifest's hash", file.path()));
  return entry->second;
}

/// The ranges of a tensor, as its file's entry lists them; none if it does not.
const std::vector<HashedRange>* ranges_of(const ManifestFile& file, const std::string& tensor) {
  static const std::vector<HashedRange> none;
  const auto entry = file.tensors.find(tensor);
  return entry == file.tensors.end() ? &none : &entry->second;
}

}  // namespace

TensorFolder TensorFolder::open(const std::string& folder, const std::string& stem) {
  TensorFolder opened;
  opened.folder_ = folder;
  const std::string single = folder + "/" + stem + ".safetensors";
  const std::string index = folder + "/" + index_name(stem);
  if (path_exists(single)) {
    opened.files_.push_back(SafetensorsFile::open(single));
    return opened;
  }
  if (!path_exists(index)) throw_no_tensors(folder, stem);

  const auto map = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  for (const std::string& name : names)
    opened.files_.push_back(SafetensorsFile::open(folder + "/" + name));
  std::map<std::string, std::string> found;  // the file of each tensor
  opened.for_each([&](const SafetensorsFile& file, const TensorInfo& tensor) {
    const auto [first, is_new] = found.emplace(tensor.name, file.path());
    if (!is_new)
      throw Error(
          ErrorKind::kData,
          fmt::format("{} and {} both have tensor {}", first->second, file.path(), tensor.name),
          "a tensor must be in one file; copy the folder again");
  });
  for (const auto& [tensor, file] : map)
    if (!found.contains(tensor))
      throw Error(ErrorKind::kData,
                  fmt::format("{} lists tensor {} in {}, which lacks it", index, tensor, file));
  return opened;
}

void TensorFolder::for_each(
    const std::function<void(const SafetensorsFile&, const TensorInfo&)>& visit) const {
  for (const SafetensorsFile& file : files_)
    for (const TensorInfo& tensor : file.tensors()) visit(file, tensor);
}

std::vector<TensorPart> parts_of(const Parameter& parameter, const FlatTensor& flat,
                                 std::span<const Slice> slices, TensorRank tensor) {
  std::vector<TensorPart> out;
  const std::int64_t first = parameter.offset, last = first + parameter.numel;
  for (const Slice& slice : slices) {
    const Range shared{std::max(slice.elements.begin, first), std::min(slice.elements.end, last)};
    if (shared.size() <= 0) continue;
    out.push_back({{shared.begin - first, shared.end - first},
                   flat.at(slice.part(shared)),
                   parameter.placement(tensor)});
  }
  return out;
}

std::map<std::string, Destination> destinations_of(const ParameterTable& table,
                                                   const FlatTensor& flat,
                                                   std::span<const Slice> slices, TensorRank tensor,
                                                   const std::string& prefix) {
  std::map<std::string, Destination> out;
  for (const Parameter& p : table.parameters)
    out[prefix + p.name] = {p.shape, parts_of(p, flat, slices, tensor)};
  return out;
}

void check_headers(const TensorFolder& source, const CheckpointManifest& manifest) {
  for (const SafetensorsFile& file : source.files()) listed(file, manifest);
}

TensorReads::TensorReads(TensorFolder source, std::map<std::string, Destination> destinations,
                         const std::function<std::string(const std::string&)>& canonical,
                         const CheckpointManifest* manifest, ErrorKind misfit)
    : source_(std::move(source)), destinations_(std::move(destinations)) {
  if (manifest != nullptr) check_headers(source_, *manifest);
  std::set<std::string> met;
  Misfits misfits;
  for (const SafetensorsFile& file : source_.files()) {
    std::vector<TensorRequest>& wanted = of_files_.emplace_back();
    for (const TensorInfo& tensor : file.tensors()) {
      const std::string name = canonical(tensor.name);
      if (name.empty()) continue;
      const auto destination = destinations_.find(name);
      if (destination == destinations_.end())
        misfits.add("unexpected " + tensor.name);
      else if (!met.insert(name).second)
        misfits.add("twice " + name);
      else if (tensor.shape != destination->second.shape)
        misfits.add(fmt::format("wrong shape of {}: {} in the file, {} in the model", tensor.name,
                                shape_text(tensor.shape), shape_text(destination->second.shape)));
      else
        wanted.push_back(
            {&tensor, destination->second.parts,
             manifest != nullptr ? ranges_of(listed(file, *manifest), tensor.name) : nullptr});
    }
  }
  for (const auto& [name, destination] : destinations_)
    if (!met.contains(name)) misfits.add("missing " + name);
  misfits.throw_if_any(source_.folder(), misfit);
}

void TensorReads::read(bool once, const std::function<void(const TensorInfo&)>& done) const {
  for (std::size_t i = 0; i < of_files_.size(); ++i)
    source_.files()[i].read(of_files_[i], once, done);
}

std::vector<PlannedFile> plan_files(const std::string& stem, std::vector<NamedTensor> tensors,
                                    std::int64_t max_shard_bytes) {
  std::vector<PlannedFile> files(1);
  std::int64_t file_bytes = 0;
  for (NamedTensor& tensor : tensors) {
    const std::int64_t bytes = tensor.bytes();
    if (file_bytes > 0 && file_bytes + bytes > max_shard_bytes) {
      files.emplace_back();
      file_bytes = 0;
    }
    files.back().tensors.push_back(std::move(tensor));
    file_bytes += bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].name = files.size() == 1
                        ? stem + ".safetensors"
                        : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, files.size());
  return files;
}

void create_files(const std::string& folder, const std::string& stem,
                  const std::vector<PlannedFile>& files, CheckpointManifest& manifest) {
  std::int64_t total_bytes = 0;
  nlohmann::ordered_json index{{"metadata", {{"total_size", 0}}}};
  for (const PlannedFile& file : files) {
    manifest.files[file.name] = create_safetensors(folder + "/" + file.name, file.tensors);
    for (const NamedTensor& tensor : file.tensors) {
      index["weight_map"][tensor.name] = file.name;
      total_bytes += tensor.bytes();
    }
  }
  index["metadata"]["total_size"] = total_bytes;
  if (files.size() > 1) write_listed_file(manifest, folder, index_name(stem), index.dump(2) + "\n");
}

}  // namespace hgt
