#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/device/buffer.h"

#include "checkpoint_files.h"
#include "tensor_folder.h"

namespace hgt {

namespace {

constexpr const char* kHead = "lm_head.weight";

bool is_old_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

/// The output matrix of a tied model may be in the file as well; it must then be the embedding.
void check_tied_head(const TensorFolder& source, const Destination& embedding) {
  constexpr std::int64_t kPiece = 1 << 20;
  const auto is_same = [&](const SafetensorsFile& file, const TensorInfo& head) {
    if (head.shape != embedding.shape) return false;
    for (const TensorPart& placed : embedding.parts)
      for (const TensorPart& part : placed.runs())
        for (Range at{part.elements.begin, 0}; at.begin < part.elements.end; at.begin = at.end) {
          at.end = std::min(at.begin + kPiece, part.elements.end);
          const Tensor values =
              part.values.slice(0, at.begin - part.elements.begin, at.end - part.elements.begin);
          const Buffer read("output matrix",
                            at.size() * static_cast<std::int64_t>(size_of(values.dtype())));
          const TensorPart wanted{at, Tensor(read.data(), {at.size()}, values.dtype())};
          file.read({{&head, std::span(&wanted, 1)}});
          if (std::memcmp(read.data(), values.raw(), static_cast<std::size_t>(read.bytes())) != 0)
            return false;
        }
    return true;
  };
  source.for_each([&](const SafetensorsFile& file, const TensorInfo& tensor) {
    if (tensor.name == kHead && !is_same(file, tensor))
      throw Error(
          ErrorKind::kData,
          fmt::format("{} of {} differs from the embedding, but tie_word_embeddings is true", kHead,
                      file.path()),
          "set tie_word_embeddings to false in the model's config");
  });
}

void load(const std::string& folder, const std::string& stem, const CheckpointManifest* manifest,
          const ParameterTable& table, const FlatTensor& parameters, std::span<const Slice> slices,
          TensorRank tensor) {
  const std::map<std::string, Destination> destinations =
      destinations_of(table, parameters, slices, tensor);
  // "transformer.wte.weight", "model.embed_tokens.weight"; a file may leave the first word out.
  const std::string& embedding = table.find(0, Role::kTokens)->name;
  const std::string prefix = embedding.substr(0, embedding.find('.') + 1);
  const bool tied = !destinations.contains(kHead);
  const auto canonical = [&](const std::string& name) -> std::string {
    if (is_old_buffer(name) || (tied && name == kHead)) return "";
    return !destinations.contains(name) && destinations.contains(prefix + name) ? prefix + name
                                                                                : name;
  };

  const TensorReads reads(TensorFolder::open(folder, stem), destinations, canonical, manifest,
                          ErrorKind::kData);
  reads.read(false);
  if (tied) check_tied_head(reads.source(), destinations.at(embedding));
}

}  // namespace

void load_hf_weights(const std::string& folder, const ParameterTable& table,
                     const FlatTensor& parameters, std::span<const Slice> slices, TensorRank tensor,
                     const std::string& stem) {
  if (!path_exists(folder + "/" + kManifestName))
    return load(folder, stem, nullptr, table, parameters, slices, tensor);
  try {
    const CheckpointManifest manifest = read_manifest(folder, stem);
    load(folder, stem, &manifest, table, parameters, slices, tensor);
  } catch (const Error& e) {
    throw_offering_before(e, folder);
  }
}

void load_hf_weights(const std::string& folder, const ParameterTable& table,
                     const Tensor& parameters, const std::string& stem) {
  const Slice all{{0, table.total}};
  load_hf_weights(folder, table, FlatTensor{parameters}, std::span(&all, 1), {}, stem);
}

}  // namespace hgt
