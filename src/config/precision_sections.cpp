// fp16, bf16 and their relatives. Training is fp32 in this version: what is off is checked all the
// same.
#include "sections.h"

namespace hgt {
namespace {

std::vector<Choice> types() {
  const char* const hint = "this version trains in fp32";
  return {{"fp32"}, {"fp16", KeyClass::kNotBuilt, hint}, {"bf16", KeyClass::kNotBuilt, hint}};
}

Field fp16_section() {
  return section(
      "fp16", "half precision with loss scaling",
      {
          not_built("enabled", Kind::kBool, "false", "train in fp16").auto_is("false"),
          noticed("auto_cast", Kind::kBool, "inputs are token ids"),
          noticed("loss_scale", Kind::kNumber, "0: dynamic").at_least(0),
          noticed("initial_scale_power", Kind::kInteger, "first scale, as a power of two"),
          noticed("loss_scale_window", Kind::kInteger, "clean steps before the scale grows"),
          noticed("hysteresis", Kind::kInteger, "overflows before it shrinks"),
          noticed("consecutive_hysteresis", Kind::kBool,
                  "a clean step forgives the overflows before it"),
          noticed("min_loss_scale", Kind::kInteger, "least scale"),
          not_built("fp16_master_weights_and_grads", Kind::kBool, "false", "fp16 masters"),
      });
}

Field bf16_section() {
  Field out = section(
      "bf16", "bfloat16",
      {
          not_built("enabled", Kind::kBool, "false", "train in bf16").auto_is("false"),
          noticed("immediate_grad_update", Kind::kBool, "gradients are accumulated at once"),
          noticed("check_grad_overflow", Kind::kBool,
                  "a loss or norm that is not finite ends the run"),
          not_built("bf16_master_weights_and_grads", Kind::kBool, "false", "bf16 masters"),
          not_built("bf16_optimizer_states", Kind::kBool, "false", "bf16 moments"),
          noticed("loss_scale", Kind::kNumber, "bf16 needs no loss scale"),
          noticed("initial_scale_power", Kind::kInteger, "bf16 needs no loss scale"),
          noticed("loss_scale_window", Kind::kInteger, "bf16 needs no loss scale"),
          noticed("hysteresis", Kind::kInteger, "bf16 needs no loss scale"),
          noticed("min_loss_scale", Kind::kNumber, "bf16 needs no loss scale"),
          noticed("auto_cast", Kind::kBool, "inputs are token ids"),
      });
  out.aliases = {"bfloat16"};
  out.alias_yields = true;
  return out;
}

}  // namespace

std::vector<Field> precision_sections() {
  Field amp = section("amp", "NVIDIA apex",
                      {
                          not_built("enabled", Kind::kBool, "false", "apex mixed precision")
                              .auto_is("false")
                              .instead("apex is a PyTorch extension: remove the section"),
                          noticed("opt_level", Kind::kText, "of apex"),
                      });
  amp.open = true;
  Field autocast = section("torch_autocast", "PyTorch's autocast",
                           {
                               not_built("enabled", Kind::kBool, "false", "PyTorch's autocast"),
                               noticed("dtype", Kind::kText, "of autocast"),
                               noticed("lower_precision_safe_modules", Kind::kList, "of autocast"),
                           });
  autocast.open = true;
  return {fp16_section(), bf16_section(), std::move(amp), std::move(autocast),
          section("data_types", "types of gradients and buffers",
                  {
                      noticed("grad_accum_dtype", Kind::kText, "gradients are accumulated in fp32")
                          .one_of(types()),
                      noticed("param_dtype", Kind::kText, "parameters are fp32").one_of(types()),
                      noticed("buffer_dtype", Kind::kText, "of PyTorch's buffers"),
                  })};
}

}  // namespace hgt
