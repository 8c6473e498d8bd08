// fp16, bf16 and related sections. Sections that are off are checked too.
#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

constexpr const char* kByGpus = "depends on the GPUs of the run";

std::vector<Choice> types() {
  const char* const hint =
      "remove it: masters and gradients are fp32; bf16.enabled or fp16.enabled computes in 16 bits";
  return {{"fp32"}, {"fp16", KeyClass::kNotBuilt, hint}, {"bf16", KeyClass::kNotBuilt, hint}};
}

template <class T>
SlotOf in(T PrecisionConfig::*member) {
  return [member](Config& c) -> Slot { return &(c.precision.*member); };
}

Field fp16_section() {
  using P = PrecisionConfig;
  return section(
      "fp16", "half precision with loss scaling",
      {
          used("enabled", in(&P::fp16),
               "train in fp16, with fp32 masters; \"auto\": on GPUs that do not support bf16, if "
               "bf16.enabled is \"auto\", too")
              .auto_is("false", kByGpus),
          ignored("auto_cast", Kind::kBool, "inputs are token ids"),
          used("loss_scale", in(&P::loss_scale), "0: dynamic").at_least(0),
          used("initial_scale_power", in(&P::initial_scale_power),
               "first scale, as a power of two; once a weight has changed, a resumed run keeps its "
               "checkpoint's")
              .at_least(0)
              .at_most(127),
          used("loss_scale_window", in(&P::loss_scale_window),
               "steps without overflow before the scale grows"),
          used("hysteresis", in(&P::hysteresis), "overflows before the scale shrinks"),
          used("consecutive_hysteresis", in(&P::consecutive_hysteresis),
               "a step without overflow resets the count of overflows"),
          used("min_loss_scale", in(&P::min_loss_scale), "smallest scale; 0: none").at_least(0),
          not_built("fp16_master_weights_and_grads", Kind::kBool, "false", "fp16 masters"),
          ignored("opt_level", Kind::kText, "an option of apex, in old files"),
          ignored("fp16_scale_tolerance", Kind::kNumber, "an option of fairseq, in old files"),
          ignored("fp16", Kind::kBool, "an option of GPT-NeoX, in old files: see enabled"),
      });
}

Field bf16_section() {
  using P = PrecisionConfig;
  Field out = section(
      "bf16", "bfloat16",
      {
          used("enabled", in(&P::bf16),
               "train in bf16; \"auto\": on GPUs of compute capability 8.0 or more")
              .auto_is("false", kByGpus),
          used("bf16_master_weights_and_grads", in(&P::bf16_parameters),
               "no fp32 masters: updates are rounded stochastically to the bf16 weights; gradients "
               "are still summed in fp32; not built for Lamb"),
          used("bf16_optimizer_states", in(&P::bf16_state),
               "the optimizer's state in bf16 too, rounded in the same way; needs "
               "bf16_master_weights_and_grads"),
          ignored("immediate_grad_update", Kind::kBool, "gradients are accumulated at once"),
          ignored("check_grad_overflow", Kind::kBool,
                  "a loss or norm that is not finite ends the run"),
          ignored("loss_scale", Kind::kNumber, "bf16 needs no loss scale"),
          ignored("initial_scale_power", Kind::kInteger, "bf16 needs no loss scale"),
          ignored("loss_scale_window", Kind::kInteger, "bf16 needs no loss scale"),
          ignored("hysteresis", Kind::kInteger, "bf16 needs no loss scale"),
          ignored("min_loss_scale", Kind::kNumber, "bf16 needs no loss scale"),
          ignored("auto_cast", Kind::kBool, "inputs are token ids"),
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
                          ignored("opt_level", Kind::kText, "an option of apex"),
                          ignored("loss_scale", Kind::kAny, "an option of apex"),
                          ignored("min_loss_scale", Kind::kAny, "an option of apex"),
                          ignored("max_loss_scale", Kind::kAny, "an option of apex"),
                          ignored("cast_model_type", Kind::kAny, "an option of apex"),
                          ignored("patch_torch_functions", Kind::kAny, "an option of apex"),
                          ignored("keep_batchnorm_fp32", Kind::kAny, "an option of apex"),
                          ignored("master_weights", Kind::kAny, "an option of apex"),
                          ignored("cast_model_outputs", Kind::kAny, "an option of apex"),
                          ignored("num_losses", Kind::kAny, "an option of apex"),
                          ignored("verbosity", Kind::kAny, "an option of apex"),
                      });
  amp.open = true;
  Field autocast = section(
      "torch_autocast", "PyTorch's autocast",
      {
          not_built("enabled", Kind::kBool, "false", "PyTorch's autocast")
              .instead("set bf16.enabled or fp16.enabled: both keep fp32 masters"),
          ignored("dtype", Kind::kText, "an option of PyTorch's autocast"),
          ignored("lower_precision_safe_modules", Kind::kList, "an option of PyTorch's autocast"),
      });
  autocast.open = true;
  Field types_section =
      section("data_types", "types of gradients and buffers",
              {
                  ignored("grad_accum_dtype", Kind::kText, "gradients are accumulated in fp32")
                      .one_of(types()),
                  ignored("param_dtype", Kind::kText, "see fp16 and bf16").one_of(types()),
                  ignored("keep_in_fp32_modules", Kind::kAny, "parameters are fp32"),
                  ignored("buffer_dtype", Kind::kText, "the type of PyTorch's buffers"),
              });
  types_section.open = true;
  return {fp16_section(), bf16_section(), std::move(amp), std::move(autocast),
          std::move(types_section)};
}

}  // namespace hgt
