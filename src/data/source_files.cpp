#include "source_files.h"

#include <cerrno>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "file_kind.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

class Search {
 public:
  /// If there are `several` inputs, a file that two of them name is refused.
  Search(fs::path except, bool several) : except_(std::move(except)), several_(several) {}

  void add_file(const std::string& path, bool from_folder) {
    if (from_folder && fs::path(path).lexically_normal().string().starts_with(except_.string()))
      return;
    const FileKind kind = kind_of_name(path);
    if (!kind.other.empty() && from_folder) return found.other.push_back(path);
    if (!kind.other.empty())
      throw Error(ErrorKind::kConfig, fmt::format("{} is {}, not text", path, kind.other),
                  kind.hint);
    std::error_code error;
    if (several_ && input_of_.emplace(fs::canonical(path, error), input).first->second != input)
      throw Error(ErrorKind::kConfig, fmt::format("--input names {} twice", path),
                  "name each file once: the file or its folder");
    const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
    found.files.push_back({path, error ? 0 : bytes, kind.json_lines, from_folder});
  }

  void add_folder(const std::string& folder) {
    for (const std::string& name : list_folder(folder)) {
      const std::string path = folder + (folder.ends_with('/') ? "" : "/") + name;
      std::error_code error;
      const bool is_link = fs::is_symlink(path, error);
      const fs::file_status status = fs::status(path, error);
      if (name.starts_with('.'))
        ++found.hidden;
      else if (name.ends_with(".tokenizer"))  // of prepared data
        found.other.push_back(path);
      else if (fs::is_directory(status) && !is_link)
        add_folder(path);
      else if (fs::is_regular_file(status))
        add_file(path, true);
    }
  }

  SourceFiles found;
  int input = 0;  ///< number of the one that is searched

 private:
  fs::path except_;
  bool several_;
  std::map<fs::path, int> input_of_;
};

}  // namespace

SourceFiles find_sources(const std::vector<std::string>& inputs, const std::string& except) {
  Search search(fs::path(except).lexically_normal(), inputs.size() > 1);
  for (const std::string& input : inputs) {
    ++search.input;
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status))
      throw_file_error("open", input, error ? error.value() : ENOENT, ErrorKind::kConfig);
    if (fs::is_directory(status))
      search.add_folder(input);
    else if (fs::is_regular_file(status))
      search.add_file(input, false);
    else
      throw Error(ErrorKind::kConfig, fmt::format("{} is neither a file nor a folder", input),
                  "write what comes from a pipe to a file first");
  }
  if (search.found.files.empty())
    throw Error(ErrorKind::kConfig, "--input names no text",
                "name a text file, a .jsonl file or a folder that holds some");
  return std::move(search.found);
}

}  // namespace hgt
