#pragma once

#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

/// What ssh gets beyond the name of the host.
std::vector<std::string> login_flags(const JobHost& host);

/// Why ssh has ended, in one line: from `stderr_text`, the end of what it wrote there. Its last
/// line alone does not tell a changed host key from an unknown one, nor who failed behind a jump
/// host.
/// "" if it wrote nothing.
std::string why_ssh_ended(const std::string& stderr_text);

/// What to do about a why_ssh_ended(); "" if that is not known.
std::string hint_for_ssh(const JobHost& host, const std::string& why);

}  // namespace hgt
