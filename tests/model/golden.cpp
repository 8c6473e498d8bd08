#include "golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/checkpoint/safetensors.h"

#include "support/roots.h"

using namespace hgt;

namespace {

/// splitmix64 of the FNV-1a hash of the name plus 0, 1, 2, ...
std::vector<std::uint64_t> hashes(const std::string& name, std::int64_t count) {
  std::uint64_t state = 0xcbf29ce484222325;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::vector<std::uint64_t> out(static_cast<std::size_t>(count));
  for (std::uint64_t& z : out) {
    z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
  }
  return out;
}

std::string folder() {
  return source_root() + "/tests/fixtures/models/";
}

bool is_gain(const Parameter& p) {
  return p.init.kind == Init::kOnes;
}

RopeScaling rope_scaling(const nlohmann::json& json) {
  RopeScaling out;
  out.type = json["type"];
  out.factor = json.value("factor", out.factor);
  out.low_freq_factor = json.value("low_freq_factor", out.low_freq_factor);
  out.high_freq_factor = json.value("high_freq_factor", out.high_freq_factor);
  out.original_max_position_embeddings = json.value("original_max_position_embeddings", 0);
  return out;
}

ModelConfig model_config(const nlohmann::json& m) {
  ModelConfig out;
  out.model_type = m["model_type"];
  out.vocab_size = m["vocab_size"];
  out.hidden_size = m["hidden_size"];
  out.intermediate_size = m["intermediate_size"];
  out.num_hidden_layers = m["num_hidden_layers"];
  out.num_attention_heads = m["num_attention_heads"];
  out.num_key_value_heads = m["num_key_value_heads"];
  out.head_dim = m["head_dim"];
  out.max_position_embeddings = m["max_position_embeddings"];
  out.hidden_act = m["hidden_act"];
  out.norm_eps = m["norm_eps"];
  out.rope_theta = m["rope_theta"];
  out.rope_scaling = rope_scaling(m["rope_scaling"]);
  out.tie_word_embeddings = m["tie_word_embeddings"];
  out.attention_bias = m["attention_bias"];
  out.attention_out_bias = m["attention_out_bias"];
  out.mlp_bias = m["mlp_bias"];
  out.qk_norm = m["qk_norm"];
  out.layer_windows = m["layer_windows"].get<std::vector<std::int64_t>>();
  out.scale_attn_by_inverse_layer_idx = m["scale_attn_by_inverse_layer_idx"];
  return out;
}

}  // namespace

const std::vector<std::string>& Golden::names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator(folder()))
      if (file.path().extension() == ".json") found.push_back(file.path().stem());
    std::ranges::sort(found);
    return found;
  }();
  return all;
}

Golden::Golden(const std::string& name) {
  const std::string path = folder() + name;
  const auto json = nlohmann::json::parse(std::ifstream(path + ".json"));
  model = model_config(json["model"]);
  batch = json["batch"];
  seq_length = json["seq_length"];
  losses = json["losses"].get<std::vector<double>>();
  bf16_loss_error = json["bf16_errors"]["loss"];
  bf16_gradient_errors = json["bf16_errors"]["gradients"].get<std::map<std::string, double>>();
  if (json.contains("gradient_norms")) {
    gradient_norms = json["gradient_norms"].get<std::map<std::string, double>>();
    return;
  }
  const auto& adamw = json["adamw"];
  lr = adamw["lr"];
  beta1 = adamw["beta1"];
  beta2 = adamw["beta2"];
  eps = adamw["eps"];
  weight_decay = adamw["weight_decay"];
  prompt = json["greedy"]["prompt"].get<std::vector<std::int32_t>>();
  continuation = json["greedy"]["tokens"].get<std::vector<std::int32_t>>();
  const auto file = SafetensorsFile::open(path + ".safetensors");
  for (const TensorInfo& info : file.tensors()) {
    std::vector<float>& values = tensors[info.name];
    values.resize(static_cast<std::size_t>(info.numel()));
    const TensorPart all{{0, info.numel()}, Tensor(values.data(), {std::ssize(values)})};
    file.read({{&info, std::span(&all, 1)}});
  }
}

Golden::Batch Golden::batch_of(int step) const {
  const auto stream = hashes("tokens " + std::to_string(step), batch * (seq_length + 1));
  const auto token = [&](std::int64_t i) {
    return static_cast<std::int32_t>(stream[static_cast<std::size_t>(i)] %
                                     static_cast<std::uint64_t>(model.vocab_size));
  };
  Batch out;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < seq_length; ++t) {
      const bool counts = (b * seq_length + t) % 5 != 0;
      out.tokens.push_back(token(b * (seq_length + 1) + t));
      out.targets.push_back(counts ? token(b * (seq_length + 1) + t + 1) : -100);
      out.valid += counts;
    }
  return out;
}

MicroBatch Golden::micro_batch(const Batch& from) const {
  MicroBatch out;
  out.tokens_BT = from.tokens;
  out.targets_BT = from.targets;
  out.batch = batch;
  out.seq_length = seq_length;
  out.loss_scale = 1.0 / static_cast<double>(from.valid);
  return out;
}

std::vector<float> Golden::parameters(const ParameterTable& table) const {
  std::vector<float> flat(static_cast<std::size_t>(table.total));
  for (const Parameter& p : table.parameters) {
    const auto words = hashes(p.name, p.numel);
    for (std::int64_t i = 0; i < p.numel; ++i) {
      const float uniform =
          static_cast<float>(words[static_cast<std::size_t>(i)] >> 40) / 16777216.0f;
      flat[static_cast<std::size_t>(p.offset + i)] =
          (is_gain(p) ? 1.0f : 0.0f) + (uniform * 2 - 1) * 0.3f;
    }
  }
  return flat;
}

Buffer rounded(const std::vector<float>& values, DType dtype, Stream stream) {
  const std::size_t bytes = values.size() * size_of(dtype);
  Buffer host("host", static_cast<std::int64_t>(bytes));
  Buffer out("weights", static_cast<std::int64_t>(bytes), stream.device());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) host.as<float>()[i] = values[i];
    if (dtype == DType::kBF16) host.as<BFloat16>()[i] = values[i];
    if (dtype == DType::kF16) host.as<Half>()[i] = values[i];
  }
  stream.copy(out.data(), host.data(), bytes);
  stream.synchronize();
  return out;
}
