#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/data/manifest.h"
#include "hgtrain/data/token_file.h"
#include "hgtrain/data/tokenizer.h"

#include "hashing_writer.h"

namespace hgt {

/// The files of prepared data while they are written: PREFIX.bin.partial and so on, locked against
/// a second writer. The destructor removes what commit() has not made final.
class PreparedFiles {
 public:
  /// Error(kConfig) if the data exists and `overwrite` is false, if another process is writing it,
  /// if a file with one of its names is not prepared data, or if PREFIX.tokenizer holds files that
  /// hgtrain did not write.
  PreparedFiles(std::string prefix, TokenType type, const Tokenizer& tokenizer, bool overwrite);
  ~PreparedFiles();
  PreparedFiles(const PreparedFiles&) = delete;
  PreparedFiles& operator=(const PreparedFiles&) = delete;

  void append(std::span<const std::int32_t> tokens);
  void end_document();
  /// Puts everything on the disk under its final name, the manifest last. Fills in tokens,
  /// documents, dtype, hashes and largest id.
  void commit(Manifest& manifest);
  std::int64_t num_tokens() const { return num_tokens_; }

 private:
  std::string partial(std::string_view extension) const;
  void remove_partial() noexcept;
  void sweep() const;
  void refuse_to_replace_others() const;

  std::string prefix_;
  TokenType type_;
  std::optional<File> bin_;
  std::optional<HashingWriter> writer_;
  std::vector<std::int32_t> lengths_;  ///< of sequences, as write_megatron_index takes them
  std::int64_t open_length_ = 0;       ///< tokens of the sequence under way
  std::int64_t num_tokens_ = 0;
  std::int64_t num_documents_ = 0;
  std::int32_t max_token_ = 0;
  std::map<std::string, std::uint64_t> tokenizer_files_;  ///< XXH3 by name
  std::vector<std::string> named_;  ///< final names that commit() has given so far
};

}  // namespace hgt
