#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace hgt {

/// Shape to choice; both are printable text without tabs.
using GemmChoices = std::map<std::string, std::string>;

/// How each product is computed on a kind of device, a GPU or a CPU: choices that this process
/// found by timing, and those of earlier processes, from a small file that any number of processes
/// may use at once. The first process to time a shape decides for all that share the file, so that
/// a run repeats another one's bits. Any thread may call it.
///
/// A file that is missing, damaged, of another version or too large counts as empty and is written
/// anew; if it cannot be written, choices last as long as the process.
class GemmCache {
 public:
  /// `basis` says what the choices are valid for, in printable text: the device, the library's
  /// version. It determines the file's name in `folder`; without a folder there is no file.
  GemmCache(std::string folder, std::string basis);

  const std::string& basis() const { return basis_; }
  /// From now on, these choices replace those of this process and of the file.
  void use(const GemmChoices& choices);
  std::optional<std::string> find(const std::string& shape) const;
  /// Adds a choice, and returns the valid one: another process's if that was first, unless it is
  /// `refused`, a choice that turned out to be unusable.
  std::string keep(const std::string& shape, const std::string& choice,
                   const std::string& refused = "");

 private:
  GemmChoices stored() const;

  const std::string folder_, basis_, path_;
  mutable std::mutex mutex_;
  GemmChoices choices_;
};

/// hgtrain's folder among the user's caches: in $XDG_CACHE_HOME, else in ~/.cache; "" if the
/// environment has neither.
std::string gemm_cache_folder();

/// The text of a cache file, which ends with its hash; and the reverse: no choices if the text is
/// incomplete or for another basis.
std::string to_text(const std::string& basis, const GemmChoices& choices);
GemmChoices choices_of(std::string_view text, const std::string& basis);

}  // namespace hgt
