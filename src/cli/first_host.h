#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

/// --detach of a job on hosts: the command runs again on the first of them, and its launcher stays
/// there. False if there are no hosts, or if it runs there already.
bool moves_to_first_host(bool detach, const std::vector<JobHost>& hosts);
/// Runs this process's command on the first of `hosts` that is no spare, which gets the variables
/// of docs/hosts.md, those of `exports`, and the content of `files` ("" = none). Returns its exit
/// code, which is 0 once the job has started; then the folder `run` here says where it is
/// (detached_run.h). Error as of run_remotely(), or of refuse_run_elsewhere() for `run`, which
/// `flag` names. `program`: RemoteCommand::program.
int run_on_first_host(const std::vector<JobHost>& hosts, const std::vector<std::string>& exports,
                      const std::vector<std::string>& files, const std::string& program,
                      const std::string& run, const std::string& flag);
/// What a file holds on the machine where the command was typed; nullopt if that is this one.
std::optional<std::string> received_file(const std::string& path);

}  // namespace hgt
