#include "rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

/// base^(-2i / D) of pair i.
std::vector<float> plain_frequencies(double base, std::int64_t head_dim) {
  std::vector<float> inverse(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = 1.0f / std::pow(static_cast<float>(base),
                                 static_cast<float>(2 * i) / static_cast<float>(head_dim));
  return inverse;
}

/// Long waves are stretched by `factor`, short ones are kept, those between are mixed.
void scale_llama3(const RopeScaling& s, std::vector<float>& inverse) {
  const float context = static_cast<float>(s.original_max_position_embeddings);
  const float factor = static_cast<float>(s.factor);
  const float low = static_cast<float>(s.low_freq_factor);
  const float high = static_cast<float>(s.high_freq_factor);
  for (float& f : inverse) {
    const float wavelength = 2 * std::numbers::pi_v<float> / f;
    if (wavelength < context / high) continue;
    if (wavelength > context / low) {
      f /= factor;
    } else {
      const float smooth = (context / wavelength - low) / (high - low);
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

/// Peng et al. 2023, arXiv:2309.00071: pairs below `low` keep their frequency, above `high` are
/// stretched by `factor`, between them a ramp.
void scale_yarn(const ModelConfig& model, std::vector<float>& inverse) {
  const RopeScaling& s = model.rope_scaling;
  const double dim = static_cast<double>(model.head_dim);
  const double context = static_cast<double>(s.original_max_position_embeddings);
  // The pair that turns `rotations` times over the original context.
  const auto pair_of = [&](double rotations) {
    return dim * std::log(context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(model.rope_theta));
  };
  double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float ramp =
        static_cast<float>(std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0));
    inverse[i] = inverse[i] / static_cast<float>(s.factor) * ramp + inverse[i] * (1 - ramp);
  }
}

float yarn_attention_factor(const RopeScaling& s) {
  if (s.attention_factor) return static_cast<float>(*s.attention_factor);
  const auto magnitude = [&](double mscale) {
    return s.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(s.factor) + 1.0;
  };
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0)
    return static_cast<float>(magnitude(*s.mscale) / magnitude(*s.mscale_all_dim));
  return static_cast<float>(magnitude(1));
}

/// The base of the dynamic scaling grows with the sequence beyond the model's length.
double dynamic_base(const ModelConfig& model, std::int64_t seq_length) {
  const double longest = static_cast<double>(model.max_position_embeddings);
  const double length = std::max(static_cast<double>(seq_length), longest);
  const double factor = model.rope_scaling.factor, dim = static_cast<double>(model.head_dim);
  return model.rope_theta * std::pow(factor * length / longest - (factor - 1), dim / (dim - 2));
}

}  // namespace

RopeFrequencies rope_frequencies(const ModelConfig& model, std::int64_t seq_length) {
  const std::string& type = model.rope_scaling.type;
  if (type == "dynamic")
    return {plain_frequencies(dynamic_base(model, seq_length), model.head_dim)};
  RopeFrequencies out{plain_frequencies(model.rope_theta, model.head_dim)};
  if (type.empty() || type == "default") return out;
  if (type == "linear") {
    for (float& f : out.inverse) f /= static_cast<float>(model.rope_scaling.factor);
  } else if (type == "llama3") {
    scale_llama3(model.rope_scaling, out.inverse);
  } else if (type == "yarn") {
    scale_yarn(model, out.inverse);
    out.factor = yarn_attention_factor(model.rope_scaling);
  } else {
    throw Error(ErrorKind::kConfig, fmt::format("rope scaling \"{}\" is not built", type),
                "use default, linear, dynamic, llama3 or yarn");
  }
  return out;
}

RopeTable::RopeTable(const ModelConfig& model, std::int64_t capacity, Stream stream)
    : model_(model),
      capacity_(capacity),
      cos_("rope cos", capacity * (model.head_dim / 2) * 4, stream.device()),
      sin_("rope sin", capacity * (model.head_dim / 2) * 4, stream.device()) {
  fill(1, stream);
}

void RopeTable::prepare(std::int64_t seq_length, Stream stream) {
  if (model_.rope_scaling.type != "dynamic") return;
  const std::int64_t length = std::max(seq_length, model_.max_position_embeddings);
  if (length != filled_for_) fill(length, stream);
}

void RopeTable::fill(std::int64_t seq_length, Stream stream) {
  filled_for_ = std::max(seq_length, model_.max_position_embeddings);
  const RopeFrequencies frequencies = rope_frequencies(model_, seq_length);
  std::vector<float> cos, sin;
  for (std::int64_t t = 0; t < capacity_; ++t)
    for (const float f : frequencies.inverse) {
      const float angle = static_cast<float>(t) * f;
      cos.push_back(std::cos(angle) * frequencies.factor);
      sin.push_back(std::sin(angle) * frequencies.factor);
    }
  stream.copy(cos_.data(), cos.data(), cos.size() * sizeof(float));
  stream.copy(sin_.data(), sin.data(), sin.size() * sizeof(float));
  stream.synchronize();  // the copies' source is freed here
}

Tensor RopeTable::rows(const Buffer& table, std::int64_t begin, std::int64_t end) const {
  return Tensor(table.data(), {capacity_, model_.head_dim / 2}, DType::kF32, table.device())
      .slice(0, begin, end);
}

Tensor RopeTable::cos(std::int64_t begin, std::int64_t end) const {
  return rows(cos_, begin, end);
}

Tensor RopeTable::sin(std::int64_t begin, std::int64_t end) const {
  return rows(sin_, begin, end);
}

}  // namespace hgt
