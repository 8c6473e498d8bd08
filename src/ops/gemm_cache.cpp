#include "gemm_cache.h"

#include <cerrno>
#include <cstdlib>
#include <sys/file.h>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/file.h"
#include "hgtrain/base/xxh3.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 20;
constexpr std::string_view kFormat = "hgtrain matrix products 1";

/// Removes the first line; false if there is no whole one.
bool take_line(std::string_view& text, std::string_view& line) {
  const std::size_t end = text.find('\n');
  if (end == text.npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

std::string hash_line(std::string_view text) {
  return fmt::format("xxh3 {:016x}\n", xxh3(text));
}

/// While it is open, no other process that calls this writes the folder's files. Some file systems
/// have no such lock: there one of two simultaneous choices is lost, and made again later.
File locked(const std::string& folder) {
  File file = File::open(folder, O_RDONLY | O_DIRECTORY);
  while (flock(file.fd(), LOCK_EX) < 0 && errno == EINTR) {
  }
  return file;
}

}  // namespace

std::string gemm_cache_folder() {
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && caches[0] == '/') return std::string(caches) + "/hgtrain";
  const char* const home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/hgtrain" : "";
}

std::string to_text(const std::string& basis, const GemmChoices& choices) {
  std::string text = fmt::format("{}\n{}\n", kFormat, basis);
  for (const auto& [shape, choice] : choices) text += fmt::format("{}\t{}\n", shape, choice);
  return text + hash_line(text);
}

GemmChoices choices_of(std::string_view text, const std::string& basis) {
  const std::size_t hash_bytes = hash_line({}).size();
  if (text.size() < hash_bytes) return {};
  std::string_view body = text.substr(0, text.size() - hash_bytes), line;
  if (text.substr(body.size()) != hash_line(body)) return {};
  if (!take_line(body, line) || line != kFormat || !take_line(body, line) || line != basis)
    return {};
  GemmChoices out;
  while (take_line(body, line)) {
    const std::size_t tab = line.find('\t');
    if (tab == line.npos) return {};
    out.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return out;
}

GemmCache::GemmCache(std::string folder, std::string basis)
    : folder_(std::move(folder)),
      basis_(std::move(basis)),
      path_(fmt::format("{}/products-{:016x}.txt", folder_, xxh3(basis_))),
      choices_(stored()) {}

GemmChoices GemmCache::stored() const {
  if (folder_.empty()) return {};
  try {
    return choices_of(read_file(path_, kMaxFileBytes), basis_);
  } catch (const Error&) {  // the file is missing, or not ours
    return {};
  }
}

void GemmCache::use(const GemmChoices& choices) {
  const std::lock_guard lock(mutex_);
  for (const auto& [shape, choice] : choices) choices_[shape] = choice;
}

std::optional<std::string> GemmCache::find(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(shape);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

std::string GemmCache::keep(const std::string& shape, const std::string& choice,
                            const std::string& refused) {
  const std::lock_guard lock(mutex_);
  const auto is_refused = [&](const auto& entry) {
    return entry.first == shape && entry.second == refused;
  };
  std::erase_if(choices_, is_refused);
  if (folder_.empty()) return choices_.emplace(shape, choice).first->second;
  try {
    make_folders(folder_);
    const File lock_of_file = locked(folder_);
    GemmChoices others = stored();
    std::erase_if(others, is_refused);
    choices_.merge(others);
    const auto [kept, added] = choices_.emplace(shape, choice);
    if (added) write_file_atomically(path_, to_text(basis_, choices_));
    return kept->second;
  } catch (const Error&) {  // full disk, read-only home: the choice lasts as long as the process
    return choices_.emplace(shape, choice).first->second;
  }
}

}  // namespace hgt
