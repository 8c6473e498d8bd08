#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// Converts text to token ids and back. Thread-safe: any number of threads may share a tokenizer.
class Tokenizer {
 public:
  /// The built-in byte tokenizer: id = byte value, 256 = end of text; vocabulary 257. Takes any
  /// bytes, UTF-8 or not, and decodes to the same bytes. No text encodes to the end-of-text id.
  static std::unique_ptr<Tokenizer> byte();
  /// An HF tokenizer.json with a byte-level BPE. The name of the end-of-text token is read from
  /// tokenizer_config.json in the same folder. Error(kData) names what is damaged or not supported.
  static std::unique_ptr<Tokenizer> from_json(const std::string& path);
  /// The tokenizer of a model folder: its tokenizer.json, or the byte tokenizer if save() wrote
  /// that.
  static std::unique_ptr<Tokenizer> from_folder(const std::string& folder);
  /// "byte", a folder, or the path of a tokenizer.json.
  static std::unique_ptr<Tokenizer> open(const std::string& name);
  virtual ~Tokenizer() = default;

  /// The ids of `text`; with `add_special_tokens`, also those that the file's post-processor adds
  /// around it (a BOS). A BPE tokenizer reads invalid UTF-8 as Python's errors="replace" does:
  /// U+FFFD for each maximal part that starts no character.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           bool add_special_tokens = false) const = 0;
  /// The ids that `add_special_tokens` adds: usually none or a BOS before the text, none after it.
  virtual std::span<const std::int32_t> ids_before() const { return {}; }
  virtual std::span<const std::int32_t> ids_after() const { return {}; }
  /// The text of the ids, special tokens included. It can be any byte sequence, because the first
  /// or last id may hold only a part of a character. Throws Error(kData) if an id is out of range.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// A position in (0, text.size()) at which any longer text that starts with `text` can be cut:
  /// the ids of the two parts, one after the other, are the ids of the whole. 0 if none is known.
  virtual std::size_t safe_cut(std::string_view text) const = 0;

  virtual std::string_view kind() const = 0;                     ///< "byte" or "bpe"
  virtual std::int64_t vocab_size() const = 0;                   ///< largest id + 1
  virtual std::int32_t end_of_text() const = 0;                  ///< -1 if there is none
  virtual std::int32_t id_of(std::string_view token) const = 0;  ///< by its name in the file; -1
  /// Writes the files from which `transformers` and from_folder() load this tokenizer into an
  /// existing folder. Replaces files of the same names; each is synced to the disk.
  virtual void save(const std::string& folder) const = 0;
};

/// Whether two tokenizers (names as for Tokenizer::open) have files that give every text the same
/// ids: vocabulary, merges, added tokens, normalizer, splitting, special tokens around a text.
/// Throws the errors of Tokenizer::open.
bool is_same_tokenizer(const std::string& a, const std::string& b);

}  // namespace hgt
