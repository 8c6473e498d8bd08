#include "hgtrain/machine/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <glob.h>

namespace hgt {
namespace {

namespace fs = std::filesystem;

/// The NAME in glibc's "NAME: cannot open shared object file: ..."; empty if dlopen failed for
/// another reason.
std::string missing_library(const std::string& why) {
  const std::size_t end = why.find(": cannot open shared object file");
  return end == std::string::npos ? "" : why.substr(0, end);
}

std::vector<fs::path> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> out;
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

}  // namespace

fs::path find_in(const std::vector<fs::path>& folders, const std::string& name) {
  for (const fs::path& folder : folders)
    if (fs::exists(folder / name)) return folder / name;
  return {};
}

std::vector<fs::path> nearest_first(std::vector<fs::path> folders, const fs::path& file) {
  const fs::path own = file.parent_path();
  const auto distance = [&](const fs::path& folder) {
    if (folder == own) return 0;
    return folder.parent_path().parent_path() == own.parent_path().parent_path() ? 1 : 2;
  };
  std::stable_sort(folders.begin(), folders.end(),
                   [&](const fs::path& a, const fs::path& b) { return distance(a) < distance(b); });
  return folders;
}

OpenedLibrary open_library(const std::string& file, std::vector<fs::path> folders) {
  std::string last_missing;
  fs::path from;
  while (true) {
    OpenedLibrary out;
    out.from = from;
    out.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (out.handle != nullptr) return out;
    out.why = dlerror();
    out.missing = missing_library(out.why);
    const fs::path found = find_in(folders, out.missing);
    if (out.missing.empty() || found.empty() || out.missing == last_missing) return out;
    last_missing = out.missing;
    if (from.empty()) {
      from = found;
      folders = nearest_first(std::move(folders), found);
    }
    OpenedLibrary needed = open_library(found.string(), folders);
    if (needed.handle == nullptr) return needed;
  }
}

std::vector<fs::path> cuda_library_folders(const fs::path& program_folder) {
  std::vector<fs::path> folders;
  const auto add = [&](const std::string& pattern) {
    for (const fs::path& folder : matches(pattern)) folders.push_back(folder);
  };
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(name)) add(std::string(root) + "/lib64");
  add("/usr/local/cuda/lib64");
  add("/usr/local/cuda-*/lib64");

  // Libraries of CUDA 12 and 13 need a folder each, because some have the same name in both.
  std::vector<std::string> pythons = {program_folder / ".venv*",
                                      program_folder.parent_path() / ".venv*"};
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* root = std::getenv(name)) pythons.emplace_back(root);
  if (const char* home = std::getenv("HOME")) pythons.push_back(std::string(home) + "/.local");
  pythons.insert(pythons.end(), {"/usr/local", "/usr"});
  for (const std::string& root : pythons) {
    add(root + "/lib/python3*/site-packages/nvidia/*/lib");
    add(root + "/lib/python3*/dist-packages/nvidia/*/lib");
  }
  add("/usr/lib/python3/dist-packages/nvidia/*/lib");
  return folders;
}

}  // namespace hgt
