#include <cstdint>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/report/step_record.h"

/// Any text is a record or an Error, and a record survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const nlohmann::json json = nlohmann::json::parse(data, data + size, nullptr, false);
  if (!json.is_object()) return 0;
  try {
    const hgt::StepRecord record = json.get<hgt::StepRecord>();
    if (nlohmann::json(nlohmann::json(record).get<hgt::StepRecord>()) != nlohmann::json(record))
      __builtin_trap();
  } catch (const hgt::Error&) {
  }
  return 0;
}
