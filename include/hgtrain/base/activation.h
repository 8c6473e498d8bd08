#pragma once

namespace hgt {

/// The functions between the two products of an MLP. kGeluTanh is HF's gelu_new and
/// gelu_pytorch_tanh, kGelu the exact one with erf (Hendrycks & Gimpel 2016, arXiv:1606.08415),
/// kSilu is x * sigmoid(x).
enum class Activation : int { kGeluTanh, kGelu, kRelu, kSilu };

}  // namespace hgt
