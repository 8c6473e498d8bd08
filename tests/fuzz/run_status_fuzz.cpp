// What `hgtrain status` shows of an answer or of run.json: any JSON becomes a text.
#include <string_view>

#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

#include "run_status.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto status =
      hgt::try_parse_json<nlohmann::json>({reinterpret_cast<const char*>(data), size});
  if (!status.is_object()) return 0;
  hgt::status_text(status);
  hgt::status_text(hgt::ended_status(status));
  return 0;
}
