#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

inline constexpr const char* kNoAnswer = "it did not answer within";
inline constexpr const char* kSilence = "nothing has come from it for 15 s";
inline constexpr const char* kNoWord = "ssh ended without a word";
inline constexpr const char* kTooMuchNoise =
    "its shell prints more than 64 KiB before it starts a program";

/// The arguments for ssh besides the host's name.
std::vector<std::string> login_flags(const JobHost& host);

/// Why ssh has ended, in one line, from the end of what it wrote to stderr. Its last line alone
/// does not tell a changed host key from an unknown one, nor which host failed behind a jump host.
/// "" if it wrote nothing.
std::string why_ssh_ended(const std::string& stderr_text);

/// Whether a why_ssh_ended() says that an ssh server, the host's or its jump host's, has dropped
/// the connection before the login, as it does if too many log in at once.
bool is_dropped(std::string_view why);

/// Whether a why_ssh_ended() says that something accepted the connection, but that no server has
/// greeted in time, as if it or a jump host is slow.
bool is_slow(std::string_view why);

/// What to do about a why_ssh_ended(); "" if that is not known.
std::string hint_for_ssh(const JobHost& host, const std::string& why);

}  // namespace hgt
