#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace hgt {

/// Shape to choice, each printable text without tabs.
using GemmChoices = std::map<std::string, std::string>;

/// How each product is computed on a kind of device: what this process found out by timing, and
/// those before it, from a small file that any number of processes may use at once. The first who
/// times a shape decides for all who share the file, so that a run repeats another one's bits. Any
/// thread may call it.
///
/// A file that is not there, damaged, of another version or too large counts as empty and is
/// written anew; where it cannot be written, choices last as long as the process.
class GemmCache {
 public:
  /// `basis` is what choices hold for, printable: the device, the library's version. It gives the
  /// file in `folder` its name; no folder, no file.
  GemmCache(std::string folder, std::string basis);

  std::optional<std::string> find(const std::string& shape) const;
  /// Adds a choice, and gives the one that holds from now on: another process's if that was first,
  /// unless it is the `refused` one, which nobody can use.
  std::string keep(const std::string& shape, const std::string& choice,
                   const std::string& refused = "");

 private:
  GemmChoices stored() const;

  const std::string folder_, basis_, path_;
  mutable std::mutex mutex_;
  GemmChoices choices_;
};

/// hgtrain's folder among the user's caches: in $XDG_CACHE_HOME, else in ~/.cache; "" where the
/// environment names neither.
std::string gemm_cache_folder();

/// A cache file's text, which ends with its hash; and what one holds: nothing if it is not whole or
/// not of this basis.
std::string to_text(const std::string& basis, const GemmChoices& choices);
GemmChoices choices_of(std::string_view text, const std::string& basis);

}  // namespace hgt
