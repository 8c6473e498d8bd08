#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "hgtrain/base/file.h"

namespace hgt {

/// How ids are stored. The values are the dtype codes of Megatron's .idx; uint32 is in llm.c's
/// files and headerless ones only.
enum class TokenType : std::uint8_t {
  kUint8 = 1,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat64,
  kFloat32,
  kUint16,
  kUint32,
};

std::size_t size_of(TokenType type);       ///< bytes of one id
std::string_view name_of(TokenType type);  ///< "uint16"

/// Reads `bytes` (little-endian, tokens.size() ids) into `tokens`. Returns the index of the first
/// id that is not a whole number in [0, limit), limit <= 2^31, or tokens.size() if there is none.
std::size_t convert_tokens(TokenType type, std::span<const std::byte> bytes,
                           std::span<std::int32_t> tokens, std::int64_t limit);

/// A file of token ids, checked on opening and read by position. Thread-safe.
///
/// There are three formats, which open() detects:
///   Megatron  PREFIX.bin and PREFIX.idx. The .idx, little-endian: "MMIDIDX\0\0", u64 version 1,
///             u8 dtype code, u64 number of sequences S, u64 length D of the document index,
///             i32 lengths[S], i64 byte offsets[S] into the .bin, i64 document index[D]
///             (ascending, 0 .. S).
///   llm.c     A 1024-byte header of i32: magic 20240520 and version 1 (uint16), or magic 20240801
///             and version 7 (uint32); the number of tokens. Then the tokens.
///   bare      Tokens and nothing else, as nanoGPT writes them.
class TokenFile {
 public:
  enum class Format { kMegatron, kLlmC, kBare };

  /// `path` is a Megatron prefix, its .bin or .idx, or a .bin of another format. `bare_type` is
  /// the type of the ids in a bare file: "auto" (uint16), "uint16", "uint32". If the magic,
  /// version, dtype, counts, sizes, offsets or document index are damaged, Error(kData) names the
  /// file and the byte offset.
  static TokenFile open(const std::string& path, const std::string& bare_type = "auto");

  Format format() const noexcept { return format_; }
  TokenType type() const noexcept { return type_; }
  const std::string& path() const noexcept { return file_.path(); }  ///< the file of the tokens
  std::int64_t num_tokens() const noexcept { return num_tokens_; }
  std::int64_t num_documents() const noexcept {
    return num_documents_;
  }                                                    ///< -1: the format has none
  std::int64_t byte_offset(std::int64_t token) const;  ///< of a token in its file

  /// Reads tokens.size() tokens, beginning with token `first`; all must lie in the file. Throws
  /// Error(kData) with the byte offset if an id is not in [0, limit), or if the file was truncated
  /// since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> tokens, std::int64_t limit) const;
  /// A hash of the tokens that does not depend on the path. It covers all bytes of a file of up to
  /// 64 MiB; of a larger file it covers the size and evenly spread blocks.
  std::uint64_t fingerprint() const;
  /// A hash of all tokens that the file had when it was opened. If `stop` is requested, it returns
  /// soon, and the result means nothing.
  std::uint64_t whole_hash(const std::stop_token& stop) const;
  /// A hash of the size and of the first and last bytes; checkpoints of earlier versions hold it.
  std::uint64_t old_fingerprint() const;

 private:
  TokenFile(File file, Format format, TokenType type, std::int64_t start);
  static TokenFile open_megatron(const std::string& prefix);
  static TokenFile open_single(const std::string& path, TokenType bare_type);

  File file_;
  Format format_;
  TokenType type_;
  std::int64_t start_;  ///< bytes before the first token
  std::int64_t num_tokens_ = 0;
  std::int64_t num_documents_ = -1;
};

/// "Megatron", "llm.c", "bare".
std::string_view name_of(TokenFile::Format format);

/// The prefix if `path` names Megatron files (as PREFIX, PREFIX.bin or PREFIX.idx), else "".
std::string megatron_prefix(const std::string& path);

}  // namespace hgt
