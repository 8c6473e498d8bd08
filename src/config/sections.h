#pragma once

#include <vector>

#include "field.h"

namespace hgt {

inline constexpr double kMaxBatch = 1e9;
inline constexpr double kMaxSequenceLength = 1e8;

// The table of keys, one file per subject; docs/config.md lists them all.
std::vector<Field> batch_fields();
std::vector<Field> toplevel_fields();
std::vector<Field> optimizer_sections();  ///< optimizer, scheduler
std::vector<Field> precision_sections();  ///< fp16, bf16, amp, data_types, torch_autocast
Field zero_section();
std::vector<Field> monitor_sections();
std::vector<Field> deepspeed_sections();  ///< DeepSpeed's other sections
std::vector<Field>
run_sections();  ///< training, data, tokenizer, parallelism, distributed, hardware, ...
Field model_section();
Field elasticity_section();

std::vector<Field> all_sections();

}  // namespace hgt
