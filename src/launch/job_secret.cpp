#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/rendezvous.h"

extern char** environ;

namespace hgt {
namespace {

constexpr std::size_t kMinBytes = 16;
constexpr std::int64_t kMaxBytes = 4096;
constexpr const char* kHowToMake =
    "once for each job: (umask 077; head -c 32 /dev/urandom | base64 > FILE); then "
    "--job_secret_file FILE on every node, or the text in the variable HGTRAIN_JOB_SECRET";

/// Asks of the file what ssh asks of its keys. Kubernetes mounts secrets as root's, readable for a
/// group of the pod.
void require_private(const File& file) {
  struct stat status {};
  if (fstat(file.fd(), &status) != 0) throw_file_error("read", file.path(), errno);
  const mode_t others = status.st_uid == geteuid() ? 077 : 007;
  if ((status.st_mode & others) != 0)
    throw Error(ErrorKind::kConfig,
                fmt::format("other users may read the job secret {}", file.path()),
                fmt::format("chmod 600 {}; of a Kubernetes Secret: defaultMode: 0400",
                            shell_word(file.path())));
}

std::string secret_in_file(const std::string& path) {
  if (!path_exists(path, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("there is no file {} with the job secret", path),
                kHowToMake);
  const File file = File::open(path, O_RDONLY, 0, ErrorKind::kConfig);
  require_private(file);
  return read_file(path, kMaxBytes, ErrorKind::kConfig);
}

/// Removes all variables that hold the secret: mpirun -x puts it into one of its own, too. What the
/// process began with stays visible in /proc/PID/environ unless it is overwritten.
void remove_from_environment(const std::string& secret) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    char* const value = std::strchr(*entry, '=');
    if (value == nullptr || std::strstr(value, secret.c_str()) == nullptr) continue;
    names.emplace_back(*entry, static_cast<std::size_t>(value - *entry));
    explicit_bzero(value + 1, std::strlen(value + 1));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::string secret_in_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  const std::string out = value ? value : "";
  if (out.size() >= kMinBytes) remove_from_environment(out);  // a word may be part of any value
  ::unsetenv(name.c_str());
  return out;
}

}  // namespace

std::string take_job_secret(const HostFlags& flags) {
  const std::string variable =
      flags.job_secret_env.empty() ? kJobSecretVariable : flags.job_secret_env;
  std::string secret = secret_in_variable(variable);  // even if a file is named: no worker gets it
  if (!flags.job_secret_file.empty()) secret = secret_in_file(flags.job_secret_file);
  secret.erase(secret.find_last_not_of("\r\n\t ") + 1);
  const std::string where =
      flags.job_secret_file.empty() ? "the variable " + variable : flags.job_secret_file;
  if (secret.empty())
    throw Error(ErrorKind::kConfig,
                flags.job_secret_file.empty() && flags.job_secret_env.empty()
                    ? "the nodes have no job secret, so anybody could join the job"
                    : fmt::format("there is no job secret in {}", where),
                kHowToMake);
  if (secret.size() < kMinBytes)
    throw Error(ErrorKind::kConfig,
                fmt::format("the job secret in {} has {} bytes, but needs at least {}", where,
                            secret.size(), kMinBytes),
                kHowToMake);
  return secret;
}

}  // namespace hgt
