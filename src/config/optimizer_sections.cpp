// DeepSpeed's optimizer and scheduler sections.
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxUpdates = 1e15;

std::vector<Field> optimizer_params() {
  const In in{&Config::optimizer};
  using O = OptimizerConfig;
  using Types = std::vector<std::string>;
  const Types adams = {"AdamW", "Adam"}, lamb = {"Lamb"}, sgd = {"SGD"}, adagrad = {"Adagrad"};
  const Types roots = {"AdamW", "Adam", "Lamb"}, moments = {"AdamW", "Adam", "Lamb", "Lion"};
  const Types kept = {"AdamW", "Adam", "Lamb", "Lion", "SGD"};
  const Types all = {"AdamW", "Adam", "Lamb", "Lion", "SGD", "Adagrad"};
  // If an element has no gradient, its update is 0 / eps, which must not be 0 / 0.
  constexpr double kMinEps = 1e-30;
  const auto betas = [](Config& c) -> Slot {
    return NumberPair{&c.optimizer.beta1, &c.optimizer.beta2};
  };
  return {
      used("lr", in(&O::lr), "learning rate; Adagrad's default is 0.01")
          .at_least(0)
          .auto_is("5e-5")
          .only(kept),
      used("lr", in(&O::lr), "learning rate")
          .at_least(0)
          .auto_is("5e-5")
          .defaults_to("0.01")
          .only(adagrad),
      used("betas", betas, "decay of the moments")
          .at_least(0)
          .at_most(1)
          .auto_is("[0.9, 0.999]")
          .only(moments),
      used("eps", in(&O::eps), "added to the root of the second moment; Adagrad's default is 1e-10")
          .at_least(kMinEps)
          .auto_is("1e-8")
          .only(roots),
      used("eps", in(&O::eps), "added to the root of the sum")
          .at_least(kMinEps)
          .auto_is("1e-8")
          .defaults_to("1e-10")
          .only(adagrad),
      used("weight_decay", in(&O::weight_decay), "weight decay of every parameter")
          .at_least(0)
          .auto_is("0")
          .only(all),
      used("bias_correction", in(&O::bias_correction), "bias correction of the moments")
          .only(roots),
      used("adam_w_mode", in(&O::adam_w_mode),
           "false with type Adam: weight decay as part of the gradient")
          .only({"Adam"}),
      ignored("adam_w_mode", Kind::kBool, "type AdamW is always AdamW").only({"AdamW"}),
      used("momentum", in(&O::momentum), "share of the last update in the next; 0: no state")
          .at_least(0)
          .only(sgd),
      used("dampening", in(&O::dampening), "share of a gradient kept out of the momentum")
          .at_least(0)
          .only(sgd),
      used("nesterov", in(&O::nesterov), "Nesterov momentum").only(sgd),
      used("min_coeff", in(&O::min_coeff), "smallest ratio of a tensor's norm to its update's")
          .at_least(0)
          .only(lamb),
      used("max_coeff", in(&O::max_coeff), "largest ratio of a tensor's norm to its update's")
          .at_least(0)
          .only(lamb),
      used("eps_inside_sqrt", in(&O::eps_inside_sqrt), "add eps to the moment, not to its root")
          .only(lamb),
      not_built("amsgrad", Kind::kBool, "false", "DeepSpeed refuses it as well").only(all),
      ignored("torch_adam", Kind::kAny, "PyTorch's Adam instead of DeepSpeed's").only(adams),
      ignored("set_grad_none", Kind::kBool, "gradients lie in one buffer").only(all),
      ignored("fp32_optimizer_states", Kind::kBool, "see bf16.bf16_optimizer_states").only(all),
      ignored("max_grad_norm", Kind::kNumber, "the same as gradient_clipping"),
  };
}

Field optimizer_section() {
  constexpr auto later = KeyClass::kNotBuilt;
  return section("optimizer", "default: AdamW with its defaults",
                 {
                     used(
                         "type", [](Config& c) -> Slot { return &c.optimizer.type; },
                         "Adam is AdamW unless params.adam_w_mode is false")
                         .one_of({{"AdamW"},
                                  {"Adam"},
                                  {"Lamb"},
                                  {"Lion"},
                                  {"Adagrad"},
                                  {"SGD"},
                                  {"Muon", later, "use AdamW"},
                                  {"OneBitAdam", later, "use AdamW"},
                                  {"ZeroOneAdam", later, "use AdamW"},
                                  {"OneBitLamb", later, "use Lamb"},
                                  {"MuAdam", later, "use AdamW"},
                                  {"MuAdamW", later, "use AdamW"},
                                  {"MuSGD", later, "use SGD"}}),
                     section("params", "parameters of the optimizer", optimizer_params()),
                     ignored("legacy_fusion", Kind::kBool, "an option of DeepSpeed's Lamb kernel"),
                 });
}

SlotOf number(std::string name) {
  return [name = std::move(name)](Config& c) -> Slot {
    return NamedNumber{&c.scheduler.numbers, name};
  };
}

Field flag(std::string name, std::string help) {
  SlotOf slot = number(name);
  Field out = used(std::move(name), std::move(slot), std::move(help));
  out.kind = Kind::kBool;
  return out;
}

Field rate(std::string name, std::string help) {
  SlotOf slot = number(name);
  Field out = used(std::move(name), std::move(slot), std::move(help));
  out.default_varies = true;
  return std::move(out).at_least(0);
}

std::vector<Field> warmup_fields() {
  const std::vector<std::string> warm = {"WarmupLR", "WarmupDecayLR"};
  const std::vector<std::string> all = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
  const std::vector<std::string> decaying = {"WarmupDecayLR", "WarmupCosineLR"};
  return {
      rate("warmup_min_lr", "rate of the first two updates")
          .auto_is("0")
          .defaults_to("0")
          .only(warm),
      rate("warmup_max_lr",
           "rate after the warmup; default: the optimizer's for WarmupLR, 0.001 for WarmupDecayLR")
          .auto_derived()
          .only({"WarmupLR"}),
      rate("warmup_max_lr", "rate after the warmup")
          .auto_derived()
          .defaults_to("0.001")
          .only({"WarmupDecayLR"}),
      rate("warmup_num_steps", "updates of the warmup; fewer than 2 count as 2, as in DeepSpeed")
          .as_integer()
          .auto_is("0")
          .defaults_to("1000")
          .only(all),
      used(
          "warmup_type", [](Config& c) -> Slot { return &c.scheduler.warmup_type; },
          "shape of the warmup; DeepSpeed takes log for any other text")
          .one_of({{"log"}, {"linear"}})
          .others_are("log")
          .only(all),
      rate("total_num_steps", "updates until the end of the decay; default: training.train_iters")
          .as_integer()
          .auto_derived()
          .only(decaying),
      rate("warmup_min_ratio", "first rate as a share of the optimizer's")
          .defaults_to("0")
          .only({"WarmupCosineLR"}),
      rate("cos_min_ratio", "last rate as a share of the optimizer's")
          .defaults_to("1e-4")
          .only({"WarmupCosineLR"}),
  };
}

std::vector<Field> cycle_fields() {
  std::vector<Field> out = {
      rate("cycle_min_lr", "rate at the ends of the cycle"),
      rate("cycle_max_lr", "rate at its peak"),
      rate("decay_lr_rate", "decay after the cycle").defaults_to("0"),
      rate("cycle_first_step_size", "updates up to the peak")
          .as_integer()
          .above(0)
          .defaults_to("2000"),
      rate("cycle_second_step_size", "updates down from the peak; default: as many as up")
          .as_integer(),
      rate("cycle_first_stair_count", "steps of the stair up; 0: a slope")
          .as_integer()
          .defaults_to("0"),
      rate("cycle_second_stair_count", "steps of the stair down; default: as many as up")
          .as_integer(),
      rate("decay_step_size", "updates of one decay").as_integer().defaults_to("0"),
      flag("cycle_momentum", "beta1 falls while the rate rises").defaults_to("true"),
      rate("cycle_min_mom", "smallest beta1").at_most(1).defaults_to("0.8"),
      rate("cycle_max_mom", "largest beta1").at_most(1).defaults_to("0.9"),
      rate("decay_mom_rate", "growth of beta1 after the cycle").defaults_to("0"),
  };
  for (Field& field : out) field.only_for = {"OneCycle"};
  return out;
}

std::vector<Field> range_test_fields() {
  std::vector<Field> out = {
      rate("lr_range_test_min_lr", "first rate").defaults_to("1e-3"),
      rate("lr_range_test_step_size", "updates of one interval")
          .as_integer()
          .above(0)
          .defaults_to("2000"),
      rate("lr_range_test_step_rate", "growth per interval").defaults_to("1.0"),
      flag("lr_range_test_staircase", "grow only at the end of an interval").defaults_to("false"),
  };
  for (Field& field : out) field.only_for = {"LRRangeTest"};
  return out;
}

Field scheduler_section() {
  Field start = rate("last_batch_iteration",
                     "begin the schedule after this iteration of it; the first update then has the "
                     "optimizer's rate, as in DeepSpeed; default: -1, the beginning");
  std::vector<Field> params = warmup_fields();
  params.push_back(
      std::move(start)
          .as_integer()
          .at_least(-1)
          .at_most(kMaxUpdates)
          .only({"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"}));
  for (auto make : {cycle_fields, range_test_fields})
    for (Field& field : make()) params.push_back(std::move(field));
  return section("scheduler", "default: a constant rate",
                 {
                     used(
                         "type", [](Config& c) -> Slot { return &c.scheduler.type; },
                         "DeepSpeed's schedules, stepped once an update")
                         .one_of({{"WarmupLR"},
                                  {"WarmupDecayLR"},
                                  {"WarmupCosineLR"},
                                  {"OneCycle"},
                                  {"LRRangeTest"},
                                  {"CosineAnnealingLR", KeyClass::kNotBuilt, "use WarmupCosineLR"},
                                  {"LinearLR", KeyClass::kNotBuilt, "use WarmupDecayLR"},
                                  {"ConstantLR", KeyClass::kNotBuilt, "leave the section out"}}),
                     section("params", "parameters of the scheduler", std::move(params)),
                 });
}

}  // namespace

std::vector<Field> optimizer_sections() {
  return {optimizer_section(), scheduler_section()};
}

}  // namespace hgt
