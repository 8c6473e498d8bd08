#include "prepared_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/config/hf_folder.h"

#include "content_hash.h"
#include "megatron_index.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

/// Opens `path` for writing, empty, and locks it, so that what a killed run left there is used
/// again and a second writer is refused.
File open_locked(const std::string& path, const std::string& prefix) {
  File file = File::open(path, O_WRONLY | O_CREAT);
  const bool locked = flock(file.fd(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) throw_file_error("lock", path, errno);
  struct stat here {
  }, there{};
  // Between opening and locking the other writer may have finished and renamed it.
  if (!locked || fstat(file.fd(), &here) != 0 || stat(path.c_str(), &there) != 0 ||
      here.st_ino != there.st_ino)
    throw Error(ErrorKind::kConfig, fmt::format("another process is preparing {}", prefix),
                "wait for it, or choose another --out");
  return file;
}

void write_file(const std::string& path, auto&& write) {
  File file = File::open(path, O_WRONLY | O_CREAT | O_TRUNC);
  write(file);
  file.sync();
  file.close();
}

[[noreturn]] void throw_not_ours(const std::string& path) {
  throw Error(ErrorKind::kConfig, path + " is not what `hgtrain data prepare` wrote",
              "choose another --out, or move it away");
}

/// The files that a manifest lists; none if it is damaged.
std::map<std::string, std::uint64_t> listed_tokenizer_files(const std::string& prefix) {
  try {
    return read_manifest(prefix).value_or(Manifest{}).tokenizer_files;
  } catch (const Error&) {
    return {};
  }
}

/// All names in a tokenizer's folder, and in the one folder that may be in it.
std::vector<std::string> names_below(const std::string& folder) {
  const std::string templates = "additional_chat_templates";
  std::vector<std::string> names = list_folder(folder);
  if (is_folder(folder + "/" + templates)) {
    std::erase(names, templates);
    for (const std::string& name : list_folder(folder + "/" + templates))
      names.push_back(templates + "/" + name);
  }
  return names;
}

}  // namespace

PreparedFiles::PreparedFiles(std::string prefix, TokenType type, const Tokenizer& tokenizer,
                             bool overwrite)
    : prefix_(std::move(prefix)), type_(type) {
  if (prefix_.empty() || prefix_.ends_with('/'))
    throw Error(ErrorKind::kConfig, fmt::format("--out \"{}\" names no file", prefix_),
                "it is how the files begin: --out data/text makes data/text.bin and data/text.idx");
  for (const char* extension : {".bin", ".idx", ".json", ".tokenizer"})
    if (!overwrite && path_exists(prefix_ + extension, ErrorKind::kConfig))
      throw Error(ErrorKind::kConfig, fmt::format("{}{} exists already", prefix_, extension),
                  "choose another --out, or replace it with --overwrite");
  make_folders(parent_folder(prefix_));
  bin_ = open_locked(partial(".bin"), prefix_);
  try {
    sweep();
    make_folders(partial(".tokenizer"));
    tokenizer.save(partial(".tokenizer"));
    for (const std::string& name : tokenizer_file_names(partial(".tokenizer")))
      tokenizer_files_[name] = hash_file(partial(".tokenizer") + "/" + name);
    refuse_to_replace_others();
  } catch (...) {  // the destructor does not run
    remove_partial();
    throw;
  }
  writer_.emplace(*bin_);
}

PreparedFiles::~PreparedFiles() {
  if (bin_) remove_partial();
}

std::string PreparedFiles::partial(std::string_view extension) const {
  return fmt::format("{}{}.partial", prefix_, extension);
}

void PreparedFiles::remove_partial() noexcept {
  const auto remove = [](const std::string& path) {
    std::error_code failed;
    fs::remove(path, failed);  // unlike remove_all it opens nothing: descriptors may be out
    if (failed) fs::remove_all(path, failed);
  };
  for (const char* extension : {".bin", ".idx", ".tokenizer"}) remove(partial(extension));
  for (const std::string& path : named_) remove(path);
}

/// Removes what a killed run left next to the .bin.partial that this run overwrites.
void PreparedFiles::sweep() const {
  std::error_code ignored;
  for (const char* extension : {".idx", ".tokenizer"}) fs::remove_all(partial(extension), ignored);
  const std::string folder = parent_folder(prefix_);
  const std::string temporary = fs::path(prefix_).filename().string() + ".json.tmp-";
  for (const std::string& name : list_folder(folder))
    if (name.starts_with(temporary)) remove_file(folder + "/" + name);
}

void PreparedFiles::append(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return;
  max_token_ = std::max(max_token_, std::ranges::max(tokens));
  num_tokens_ += std::ssize(tokens);
  open_length_ += std::ssize(tokens);
  for (; open_length_ >= kMaxSequenceTokens; open_length_ -= kMaxSequenceTokens)
    lengths_.push_back(kMaxSequenceTokens);
  if (type_ == TokenType::kInt32) return writer_->write(std::as_bytes(tokens));
  const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
  writer_->write(std::as_bytes(std::span(narrow)));
}

void PreparedFiles::end_document() {
  lengths_.push_back(static_cast<std::int32_t>(open_length_));
  open_length_ = 0;
  ++num_documents_;
}

/// Throws if --overwrite would replace files that hgtrain did not write. If there is no manifest
/// because a run was killed before it wrote one, the tokenizer's files must equal this run's.
void PreparedFiles::refuse_to_replace_others() const {
  const std::string manifest = prefix_ + ".json", tokenizer = prefix_ + ".tokenizer";
  if (path_exists(manifest, ErrorKind::kConfig) && !is_manifest(manifest)) throw_not_ours(manifest);
  if (!path_exists(tokenizer)) return;
  if (!is_folder(tokenizer)) throw_not_ours(tokenizer);
  std::set<std::pair<std::string, std::uint64_t>> known(tokenizer_files_.begin(),
                                                        tokenizer_files_.end());
  const auto listed = listed_tokenizer_files(prefix_);
  known.insert(listed.begin(), listed.end());
  for (const std::string& name : names_below(tokenizer)) {
    const std::string path = tokenizer + "/" + name;
    if (!fs::is_regular_file(path) || !known.contains({name, hash_file(path)}))
      throw_not_ours(path);
  }
}

void PreparedFiles::commit(Manifest& manifest) {
  manifest.tokens = num_tokens_;
  manifest.documents = num_documents_;
  manifest.dtype = name_of(type_);
  manifest.max_token = max_token_;
  manifest.bin_hash = writer_->finish();
  bin_->truncate(num_tokens_ * static_cast<std::int64_t>(size_of(type_)));
  bin_->sync();
  write_file(partial(".idx"),
             [&](File& file) { manifest.idx_hash = write_megatron_index(file, type_, lengths_); });
  manifest.tokenizer_files = tokenizer_files_;

  refuse_to_replace_others();  // they may have appeared meanwhile
  if (path_exists(prefix_ + ".json")) remove_file(prefix_ + ".json");
  if (path_exists(prefix_ + ".tokenizer")) remove_tree(prefix_ + ".tokenizer");
  for (const char* extension : {".bin", ".idx", ".tokenizer"}) {
    rename_path(partial(extension), prefix_ + extension);
    named_.push_back(prefix_ + extension);
  }
  named_.push_back(prefix_ + ".json");
  sync_folder(parent_folder(prefix_));
  manifest.bin_sample = TokenFile::open(prefix_).fingerprint();
  write_file_atomically(prefix_ + ".json", to_text(manifest));
  bin_.reset();
}

}  // namespace hgt
