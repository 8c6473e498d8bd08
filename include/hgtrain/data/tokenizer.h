#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// Text to token ids and back. Thread-safe: any number of threads may encode with one.
class Tokenizer {
 public:
  /// The built-in byte tokenizer: id = byte value, 256 = end of text; vocabulary 257. Takes any
  /// bytes, UTF-8 or not, and gives the same back. No text stands for end of text.
  static std::unique_ptr<Tokenizer> byte();
  /// An HF tokenizer.json with a byte-level BPE, and tokenizer_config.json beside it for the name
  /// of the end-of-text token. Error(kData) names what is damaged or not supported.
  static std::unique_ptr<Tokenizer> from_json(const std::string& path);
  /// What lies in a model folder: its tokenizer.json, or the byte tokenizer where save() wrote one.
  static std::unique_ptr<Tokenizer> from_folder(const std::string& folder);
  /// "byte", a folder, or the path of a tokenizer.json.
  static std::unique_ptr<Tokenizer> open(const std::string& name);
  virtual ~Tokenizer() = default;

  /// The ids of `text`, with `add_special_tokens` also those that the file's post-processor puts
  /// around it (a BOS). A BPE tokenizer reads invalid UTF-8 as Python's errors="replace" does:
  /// U+FFFD for each maximal part that starts no character.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           bool add_special_tokens = false) const = 0;
  /// Those special tokens: usually none or a BOS before, none after.
  virtual std::span<const std::int32_t> ids_before() const { return {}; }
  virtual std::span<const std::int32_t> ids_after() const { return {}; }
  /// The text of the ids, special tokens included. Any byte sequence may come out: a character may
  /// be cut where the ids are. Ids out of range are Error(kData).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// A place within (0, text.size()) where a longer text that starts with `text` can be cut: the
  /// ids of both halves together are those of the whole, whatever follows. 0 where none is known.
  virtual std::size_t safe_cut(std::string_view text) const = 0;

  virtual std::string_view kind() const = 0;                     ///< "byte" or "bpe"
  virtual std::int64_t vocab_size() const = 0;                   ///< largest id + 1
  virtual std::int32_t end_of_text() const = 0;                  ///< -1 where there is none
  virtual std::int32_t id_of(std::string_view token) const = 0;  ///< by its name in the file; -1
  /// Writes the files that let `transformers` and from_folder() load it into an existing folder,
  /// each synced to the disk, replacing those there.
  virtual void save(const std::string& folder) const = 0;
};

/// Whether two tokenizers, each as Tokenizer::open takes it, give every text the same ids by their
/// files: vocabulary, merges, added tokens, normalizer, splitting, special tokens around a text.
/// Errors as Tokenizer::open.
bool is_same_tokenizer(const std::string& a, const std::string& b);

}  // namespace hgt
