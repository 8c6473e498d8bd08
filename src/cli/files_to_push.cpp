#include "files_to_push.h"

#include <filesystem>
#include <set>

#include "hgtrain/base/file.h"
#include "hgtrain/config/hf_folder.h"
#include "hgtrain/data/manifest.h"
#include "hgtrain/data/token_file.h"

namespace hgt {
namespace {

void add_data(const std::vector<DataSource>& sources, std::set<std::string>& out) {
  for (const DataSource& source : sources) {
    const std::string prefix = megatron_prefix(source.path);
    if (prefix.empty()) {
      out.insert(TokenFile::open(source.path).path());
      continue;
    }
    out.insert({prefix + ".bin", prefix + ".idx"});
    if (is_manifest(prefix + ".json")) out.insert(prefix + ".json");
  }
}

}  // namespace

std::vector<std::string> token_files_of(const Config& config) {
  std::set<std::string> out;
  for (const DataSource& source : config.data.train) out.insert(source.path);
  if (config.training.eval_interval > 0)
    for (const DataSource& source : config.data.valid) out.insert(source.path);
  return {out.begin(), out.end()};
}

PushedFiles files_to_push(const Config& config, const std::string& checkpoint) {
  std::set<std::string> for_all;
  add_data(config.data.train, for_all);
  add_data(config.data.valid, for_all);
  if (!config.tokenizer.path.empty()) {
    const std::string folder = tokenizer_folder(config.tokenizer.path);
    for (const std::string& name : tokenizer_file_names(folder))
      for_all.insert(std::filesystem::path(folder) / name);
  }
  PushedFiles out{{for_all.begin(), for_all.end()}, {}};
  const bool resumes = !checkpoint.empty();
  const std::string& folder = resumes ? checkpoint : config.model.init;
  if (folder.empty()) return out;
  for (const std::string& name : list_folder(folder))
    if (std::filesystem::is_regular_file(folder + "/" + name) &&
        (resumes || !name.starts_with("optimizer")))
      out.with_run_folder.push_back(folder + "/" + name);
  return out;
}

}  // namespace hgt
