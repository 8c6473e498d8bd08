#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hgt {

/// The files that another host needs to run a program of this build, to be sent to a host that has
/// another build or none: hgtrain, hgtrain-worker and the CUDA modules of one folder, and the
/// libraries that the programs use, except for glibc, the C++ library, CUDA's and the driver's.
class ProgramFiles {
 public:
  /// `program`: the file hgtrain next to hgtrain-worker. Other programs are never sent, because
  /// they have no hashes.
  explicit ProgramFiles(std::string program);

  const std::string& program() const { return program_; }
  /// SHA-256 in hexadecimal of the programs and of each CUDA module, by name, which say whether
  /// another folder has this build; empty = never sent.
  const std::map<std::string, std::string>& hashes() const { return hashes_; }
  /// Inode, size, and times of the last change of content and of status of the same files.
  const std::string& stats() const { return stats_; }
  /// The name of the folder for these files in another host's cache.
  std::string folder() const;

  /// Each file as a line "BYTES NAME" and its bytes, the last one with what `sha256sum` prints of
  /// the others, then a line "0 end". Read once, when a host asks first. Error(kConfig) if a file
  /// cannot be read.
  std::shared_ptr<const std::string> payload() const;

 private:
  std::string program_;
  std::map<std::string, std::string> hashes_;
  std::string stats_;
  mutable std::shared_ptr<const std::string> payload_;
};

/// The script for /bin/sh on the other host, whose $0 is files.program(). It starts that program
/// with `words` if it is of this build, or else the one in its cache; without that, it prints a
/// line with send_line(nonce) and takes the payload from stdin. It prints a line with the nonce,
/// and waits for the line kStartLine before the program starts. Empty lines before the payload and
/// before kStartLine mean nothing. It has one line and no '!', so that csh can pass it on.
/// If the cache then takes more than `cache_kib`, the builds that were used longest ago go; so does
/// what an interrupted transfer has left.
std::string start_script(const ProgramFiles& files, const std::string& nonce,
                         const std::string& words = "agent", std::int64_t cache_kib = 512 << 10);
std::string send_line(const std::string& nonce);
inline constexpr const char* kStartLine = "start\n";

}  // namespace hgt
