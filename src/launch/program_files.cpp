#include "program_files.h"

#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/machine/cuda_libraries.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFileBytes = 1 << 30;

std::string sha256(const std::string& bytes) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw Error(ErrorKind::kInternal, "OpenSSL cannot compute SHA-256");
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

/// The libraries that the loader finds for a program, by name. scripts/package leaves out the same
/// ones.
std::map<std::string, std::string> libraries_of(const std::string& program) {
  static const std::regex kLine(R"(\s*(\S+) => (/\S+) \(0x[0-9a-f]+\))");
  static const std::regex kOfTheHost(
      R"((ld-linux|libc\.|libm\.|libdl\.|libpthread\.|librt\.|libresolv\.|libstdc\+\+|libgcc_s|libcuda|libnccl|libcudnn|libnvidia).*)");
  std::map<std::string, std::string> out;
  std::istringstream lines(run_shell("LD_TRACE_LOADED_OBJECTS=1 " + shell_line({program})).second);
  std::smatch found;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, found, kLine) && !std::regex_match(found[1].str(), kOfTheHost))
      out[found[1]] = found[2];
  return out;
}

/// The programs and the CUDA modules: file by its name.
std::map<std::string, std::string> built_files(const fs::path& program) {
  std::map<std::string, std::string> out;
  std::error_code ignored;
  for (const char* name : {"hgtrain", "hgtrain-worker", kCudaModuleFiles[0], kCudaModuleFiles[1]})
    if (const fs::path file = program.parent_path() / name; fs::exists(file, ignored))
      out[name] = file;
  return out;
}

/// What distinguishes a file from any other and from itself before a change, as `stat` prints it.
std::string stat_text(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return "";
  return fmt::format("{} {} {}.{:09} {}.{:09}", file.st_ino, file.st_size, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec, file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

/// File by its name in the cache.
std::map<std::string, std::string> files_of(const fs::path& program) {
  std::map<std::string, std::string> out = built_files(program);
  for (const char* name : {"hgtrain", "hgtrain-worker"})
    for (const auto& [library, path] : libraries_of(program.parent_path() / name))
      out["lib/" + library] = path;
  return out;
}

// The parts of start_script(), which become one line. The first two set p, the program.

constexpr std::string_view kFindProgram = R"sh(
  p=$0;
  [ -x "$p" ] || { echo "there is no program $0 on this host" >&2; exit 127; };
)sh";

// On a disk that the launcher sees, too, the files are the launcher's own: nothing is hashed then.
// The cache: c, this build in it: b, a folder for what arrives: t, with the names of this host and
// process, because hosts may share the cache. Once the process has ended, its folder is a leftover.
constexpr std::string_view kFindBuild = R"sh(
  fail() { echo "$*" | head -n 1 >&2; rm -rf "$t"; exit 127; };
  stats() { echo $(stat -L -c "%i %s %.9Y %.9Z" $(printf "%.0s%s " $hgt_sums) 2>/dev/null); };
  same() {
    [ -x "$1/hgtrain" ] && (cd "$1" && {
      [ "$(stats)" = "$hgt_stats" ] || printf "%s  %s\n" $hgt_sums | sha256sum -c --status;
    });
  };
  whole() { same "$1" && (cd "$1" && sha256sum -c --status SHA256SUMS); };
  try() {
    for x in "hgtrain version" "hgtrain-worker probe"; do
      m=$("$1"/$x 2>&1 >/dev/null) || fail "this host cannot run hgtrain: $m";
    done;
  };
  receive() {
    m=$(mkdir -p "$t/lib" 2>&1) || fail "the program cannot be sent: $m";
    printf "\n%s\n" $hgt_send;
    while read -r size name; do
      case $name in "") continue;; end) break;; esac;
      m=$(head -c "$size" 2>&1 > "$t/$name") || fail "the program cannot be sent to $t: $m";
    done;
    (cd "$t" && sha256sum -c --status SHA256SUMS) ||
      fail "the program was sent, but did not arrive whole in $t";
    chmod +x "$t/hgtrain" "$t/hgtrain-worker";
    try "$t";
    whole "$b" 2>/dev/null || rm -rf "$b";
    mv -T "$t" "$b" 2>/dev/null || rm -rf "$t";
  };
  remove_leftovers() {
    for o in "$c"/*."$h".*; do
      case $o in *[0-9]) kill -0 "${o##*.}" 2>/dev/null || rm -rf "$o";; esac;
    done;
  };
  remove_oldest() {
    n=0;
    ls -td "$c"/*/ | while read -r o; do
      n=$((n + $(du -sk "$o" | cut -f 1)));
      [ $n -le $hgt_most ] || [ "$o" = "$b/" ] || rm -rf "$o";
    done;
  };
  p=$0;
  c=${XDG_CACHE_HOME:-$HOME/.cache}/hgtrain;
  b=$c/$hgt_build;
  h=$(uname -n);
  t=$b.$h.$$;
  if same "${0%/*}" 2>/dev/null; then
    try "${0%/*}";
  else
    p=$b/hgtrain;
    remove_leftovers;
    whole "$b" 2>/dev/null || { receive; remove_oldest; };
    touch "$b";
  fi;
)sh";

constexpr std::string_view kStart = R"sh(
  printf "\n%s\n" $hgt_nonce;
  while read -r l; do [ -z "$l" ] || break; done;
  exec "$p" $hgt_words
)sh";

/// csh cannot pass a newline on.
std::string one_line(std::string_view script) {
  std::string out;
  bool is_at_start = true;  // of a line
  for (const char byte : script) {
    if (byte == '\n' && !out.empty()) out += ' ';
    is_at_start = byte == '\n' || (is_at_start && byte == ' ');
    if (!is_at_start) out += byte;
  }
  return out;
}

}  // namespace

ProgramFiles::ProgramFiles(std::string program) : program_(std::move(program)) {
  const std::map<std::string, std::string> built = built_files(program_);
  if (fs::path(program_).filename() != "hgtrain" || !built.contains("hgtrain-worker")) return;
  for (const auto& [name, path] : built) {
    stats_ += (stats_.empty() ? "" : " ") + stat_text(path);
    hashes_[name] = sha256(read_file(path, kMaxFileBytes, ErrorKind::kConfig));
  }
}

std::string ProgramFiles::folder() const {
  std::string out;
  for (const auto& [name, hash] : hashes_) out += hash.substr(0, 16);
  return out;
}

std::shared_ptr<const std::string> ProgramFiles::payload() const {
  if (payload_) return payload_;
  std::string out, sums;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    out += fmt::format("{} {}\n", bytes.size(), name);
    out += bytes;
  };
  for (const auto& [name, path] : files_of(program_)) {
    const std::string bytes = read_file(path, kMaxFileBytes, ErrorKind::kConfig);
    sums += fmt::format("{}  {}\n", sha256(bytes), name);
    add(name, bytes);
  }
  add("SHA256SUMS", sums);
  out += "0 end\n";
  return payload_ = std::make_shared<const std::string>(std::move(out));
}

std::string send_line(const std::string& nonce) {
  return nonce + "-send";
}

std::string start_script(const ProgramFiles& files, const std::string& nonce,
                         const std::string& words, std::int64_t cache_kib) {
  std::string values = fmt::format("hgt_nonce={}; hgt_words=\"{}\"; ", nonce, words);
  if (files.hashes().empty()) return values + one_line(kFindProgram) + one_line(kStart);
  std::string sums;
  for (const auto& [name, hash] : files.hashes()) sums += fmt::format(" {} {}", hash, name);
  values +=
      fmt::format("hgt_sums=\"{}\"; hgt_stats=\"{}\"; hgt_build={}; hgt_send={}; hgt_most={}; ",
                  sums, files.stats(), files.folder(), send_line(nonce), cache_kib);
  return values + one_line(kFindBuild) + one_line(kStart);
}

}  // namespace hgt
