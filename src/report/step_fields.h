#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "hgtrain/report/step_record.h"

namespace hgt {

/// The one list of what a step reports, in the order of the columns: visit(name, member).
template <class Record, class Visit>
void for_each_field(Record& record, Visit visit) {
  visit("step", record.step);
  visit("loss", record.loss);
  visit("grad_norm", record.grad_norm);
  visit("lr", record.lr);
  visit("step_ms", record.step_ms);
  visit("elapsed_s", record.elapsed_s);
  visit("tokens", record.tokens);
  visit("tokens_per_sec", record.tokens_per_sec);
  visit("consumed_samples", record.consumed_samples);
  visit("samples_per_sec", record.samples_per_sec);
  visit("mem_bytes", record.mem_bytes);
  visit("mem_peak_bytes", record.mem_peak_bytes);
  visit("comm_ms", record.comm_ms);
  visit("sent_bytes", record.sent_bytes);
  visit("data_wait_ms", record.data_wait_ms);
  visit("mfu", record.mfu);
  visit("eval_loss", record.eval_loss);
  visit("loss_scale", record.loss_scale);
}

/// Puts a member into a JSON object: null if it is not finite or unknown. `eval_loss` and
/// `loss_scale` are left out if there is none.
template <class Json, class T>
void put_field(Json& json, const char* name, const T& value) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    json[name] = value;
  } else {
    const std::optional<double> number = value;
    const std::string_view key = name;
    if (!number && (key == "eval_loss" || key == "loss_scale")) return;
    if (number && std::isfinite(*number)) {
      json[name] = *number;
    } else {
      json[name] = nullptr;
    }
  }
}

}  // namespace hgt
