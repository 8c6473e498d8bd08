#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/machine/diagnosis.h"

namespace hgt {

/// What `hgtrain doctor` prints, and what it prints with --json.
std::string doctor_text(const Machine& machine, const Diagnosis& diagnosis);
nlohmann::ordered_json doctor_json(const Machine& machine, const Diagnosis& diagnosis);

}  // namespace hgt
