#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/config/model_config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"

/// A flat fp32 buffer in the form that a model takes.
inline hgt::Tensor flat_tensor(std::vector<float>& values) {
  return hgt::Tensor(values.data(), {static_cast<std::int64_t>(values.size())});
}

/// Values in `dtype`, in memory of the stream's device.
hgt::Buffer rounded(const std::vector<float>& values, hgt::DType dtype, hgt::Stream stream);

/// The losses of a model on the CPU.
inline double loss_sum(const hgt::Model& model, int slot = 0) {
  double sum = 0;
  model.loss_sum(slot, &sum);
  return sum;
}
inline double evaluate(hgt::Model& model, const hgt::MicroBatch& batch) {
  double sum = 0;
  model.evaluate(batch, &sum);
  return sum;
}

/// A model of tests/fixtures/models, which tests/golden/make_models.py wrote with transformers.
/// Those in its folder gpt2_vocabulary have only the loss of the first batch, its gradients' norms,
/// and bf16's errors.
struct Golden {
  /// Of all models there, without those of folders.
  static const std::vector<std::string>& names();
  explicit Golden(const std::string& name);

  struct Batch {
    std::vector<std::int32_t> tokens, targets;
    std::int64_t valid = 0;  ///< targets that count
  };
  Batch batch_of(int step) const;
  hgt::MicroBatch micro_batch(const Batch& batch) const;
  /// The parameters before the first step, laid out by the table.
  std::vector<float> parameters(const hgt::ParameterTable& table) const;

  hgt::ModelConfig model;
  std::int64_t batch = 0, seq_length = 0;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::vector<double> losses;                      ///< of 20 steps of AdamW
  std::vector<std::int32_t> prompt, continuation;  ///< of transformers' greedy generate()
  /// How much PyTorch's bf16 differs from its fp32 on the first batch: the loss, and by norm each
  /// gradient.
  double bf16_loss_error = 0;
  std::map<std::string, double> bf16_gradient_errors;
  std::map<std::string, std::vector<float>> tensors;  ///< "logits"; gradients by parameter name
  std::map<std::string, double> gradient_norms;       ///< of a large vocabulary
};

/// The same model with dropout in all places.
inline Golden with_dropout(Golden golden) {
  golden.model.embd_pdrop = 0.1;
  golden.model.resid_pdrop = 0.2;
  golden.model.attn_pdrop = 0.3;
  return golden;
}
