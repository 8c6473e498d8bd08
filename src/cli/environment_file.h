#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hgtrain/launch/host_choice.h"

namespace hgt {

/// The lines NAME=VALUE of the file `path`; blank lines, those that begin with #, and a byte order
/// mark are skipped. Blanks around name and value do not count, and a value is not changed: no
/// quotes, no $NAME. Error(kConfig) names all that is malformed or set by the launcher itself, with
/// its line.
std::map<std::string, std::string> parse_environment_file(const std::string& text,
                                                          const std::string& path);

/// DeepSpeed's variables for the programs on hosts: those of ~/.deepspeed_env and, before these,
/// those of .deepspeed_env in this folder; the variable DS_ENV_FILE may give the files another
/// name. A notice names each file and its variables. Empty if `flags` make no command reach hosts.
/// If this command was sent to the first host (first_host.h), the files are those of the machine
/// where it was typed. Error(kConfig) as of the other two functions.
std::map<std::string, std::string> variables_of_files(const HostFlags& flags);

/// Name and content of these files, that of this folder first. Error(kConfig) if DS_ENV_FILE names
/// one that is not there.
std::vector<std::pair<std::string, std::string>> environment_files();

}  // namespace hgt
