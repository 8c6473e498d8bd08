#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "hgtrain/base/philox.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/model/model.h"

namespace hgt {

/// Samples of pseudo-random tokens, in order.
class FakeDataset final : public Dataset {
 public:
  FakeDataset(std::int64_t samples, std::int64_t seq_length)
      : samples_(samples), seq_length_(seq_length) {}
  std::int64_t num_samples() const override { return samples_; }
  std::int64_t num_tokens() const override { return samples_ * seq_length_ + 1; }
  std::uint64_t fingerprint() const override { return 1; }
  std::int64_t sample_at(std::int64_t consumed) const override { return consumed % samples_; }
  void read(std::int64_t sample, std::span<std::int32_t> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(
          philox(3, 0, static_cast<std::uint64_t>(sample * seq_length_) + i)[0] % 32);
  }

 private:
  std::int64_t samples_;
  std::int64_t seq_length_;
};

/// Three blocks with one parameter each, "a" [8], "b" [4] and "c" [1]:
///   prediction = a[token % 8] * b[token % 4] + c,  loss = (prediction - target / 10)^2 / 2
class FakeModel final : public Model {
 public:
  static ParameterTable table() {
    ParameterTable table;
    const std::int64_t numel[] = {8, 4, 1};
    const char* names[] = {"a", "b", "c"};
    for (int block = 0; block < 3; ++block) {
      Parameter& p = table.parameters.emplace_back();
      p.name = names[block];
      p.shape = p.local_shape = {numel[block]};
      p.block = block;
      p.numel = numel[block];
      p.offset = block * ParameterTable::kAlignment;
    }
    table.total = 3 * ParameterTable::kAlignment;
    return table;
  }

  FakeModel(std::span<const float> parameters, std::span<float> gradients)
      : parameters_(parameters), gradients_(gradients) {}

  int num_blocks() const override { return 3; }
  void forward(int block, int slot, const MicroBatch& batch) override {
    evaluate_block(block, slot, batch);
  }
  void backward(int block, int, const MicroBatch& batch) override {
    for (std::size_t i = 0; i < batch.tokens_BT.size(); ++i) {
      const std::int32_t token = batch.tokens_BT[i];
      const float d = error(token, batch.targets_BT[i]) * static_cast<float>(batch.loss_scale);
      if (block == 0) gradients_[token % 8] += d * b(token);
      if (block == 1) gradients_[ParameterTable::kAlignment + token % 4] += d * a(token);
      if (block == 2) gradients_[2 * ParameterTable::kAlignment] += d;
    }
  }
  void backward_weights(int, int, const MicroBatch&) override {}
  Tensor residual(int, int, const MicroBatch&) override { return {}; }
  Tensor residual_gradient(int, const MicroBatch&) override { return {}; }
  void loss_sum(int, double* out) const override { *out = loss_; }
  void evaluate_block(int block, int, const MicroBatch& batch) override {
    if (block != 2) return;
    loss_ = 0;
    for (std::size_t i = 0; i < batch.tokens_BT.size(); ++i)
      loss_ += 0.5 * std::pow(error(batch.tokens_BT[i], batch.targets_BT[i]), 2);
  }

 private:
  float a(std::int32_t token) const { return parameters_[token % 8]; }
  float b(std::int32_t token) const { return parameters_[ParameterTable::kAlignment + token % 4]; }
  float error(std::int32_t token, std::int32_t target) const {
    return a(token) * b(token) + parameters_[2 * ParameterTable::kAlignment] -
           static_cast<float>(target) * 0.1f;
  }

  std::span<const float> parameters_;
  std::span<float> gradients_;
  double loss_ = 0;
};

}  // namespace hgt
