#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/launch/survey.h"
#include "hgtrain/machine/diagnosis.h"

namespace hgt {

/// What `hgtrain doctor` found out about hosts.
struct HostsDiagnosis {
  std::vector<Finding> problems;     ///< why a job cannot run on them
  std::vector<std::string> notices;  ///< what may slow it down or stop it later
};

/// Evaluates the hosts' answers. A finding of a host's own doctor names the host.
HostsDiagnosis diagnose_hosts(const SurveyResult& found);

/// A table of the hosts, one of the ranks and their GPUs if there are any, one of the links if they
/// were measured, and the findings.
std::string hosts_text(const SurveyResult& found, const HostsDiagnosis& diagnosis);
nlohmann::ordered_json hosts_json(const SurveyResult& found, const HostsDiagnosis& diagnosis);

}  // namespace hgt
