#include "prepared_files.h"

#include <algorithm>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "megatron_index.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

/// Opens `path` for writing, empty, and locks it, so that what a killed run left there is used
/// again and a second writer is refused.
File open_locked(const std::string& path, const std::string& prefix) {
  File file = File::open(path, O_WRONLY | O_CREAT);
  struct stat here {
  }, there{};
  // Between opening and locking the other writer may have finished and renamed it.
  if (flock(file.fd(), LOCK_EX | LOCK_NB) != 0 || fstat(file.fd(), &here) != 0 ||
      stat(path.c_str(), &there) != 0 || here.st_ino != there.st_ino)
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

}  // namespace

PreparedFiles::PreparedFiles(std::string prefix, TokenType type, bool overwrite)
    : prefix_(std::move(prefix)), type_(type) {
  if (prefix_.empty() || prefix_.ends_with('/'))
    throw Error(ErrorKind::kConfig, fmt::format("--out \"{}\" names no file", prefix_),
                "it is how the files begin: --out data/text makes data/text.bin and data/text.idx");
  for (const char* extension : {".bin", ".idx", ".json", ".tokenizer"})
    if (!overwrite && path_exists(prefix_ + extension, ErrorKind::kConfig))
      throw Error(ErrorKind::kConfig, fmt::format("{}{} is there already", prefix_, extension),
                  "choose another --out, or replace it with --overwrite");
  make_folders(parent_folder(prefix_));
  bin_ = open_locked(partial(".bin"), prefix_);
  writer_.emplace(*bin_);
}

PreparedFiles::~PreparedFiles() {
  if (bin_) remove_partial();
}

std::string PreparedFiles::partial(std::string_view extension) const {
  return fmt::format("{}{}.partial", prefix_, extension);
}

void PreparedFiles::remove_partial() noexcept {
  std::error_code ignored;
  for (const char* extension : {".bin", ".idx", ".tokenizer"})
    fs::remove_all(partial(extension), ignored);
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

void PreparedFiles::commit(Manifest& manifest, const Tokenizer& tokenizer) {
  manifest.tokens = num_tokens_;
  manifest.documents = num_documents_;
  manifest.dtype = name_of(type_);
  manifest.max_token = max_token_;
  manifest.bin_hash = writer_->finish();
  bin_->truncate(num_tokens_ * static_cast<std::int64_t>(size_of(type_)));
  bin_->sync();
  write_file(partial(".idx"),
             [&](File& file) { manifest.idx_hash = write_megatron_index(file, type_, lengths_); });
  make_folders(partial(".tokenizer"));
  tokenizer.save(partial(".tokenizer"));

  if (path_exists(prefix_ + ".json")) remove_file(prefix_ + ".json");
  if (path_exists(prefix_ + ".tokenizer")) remove_tree(prefix_ + ".tokenizer");
  for (const char* extension : {".bin", ".idx", ".tokenizer"})
    rename_path(partial(extension), prefix_ + extension);
  sync_folder(parent_folder(prefix_));
  write_file_atomically(prefix_ + ".json", to_text(manifest));
  bin_.reset();
}

}  // namespace hgt
