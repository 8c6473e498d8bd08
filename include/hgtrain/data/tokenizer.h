#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// Text to token ids and back. Thread-safe.
class Tokenizer {
 public:
  /// The built-in byte tokenizer: id = byte value, 256 = end of text; vocabulary 257.
  static std::unique_ptr<Tokenizer> byte();
  /// An HF tokenizer.json with a byte-level BPE. Error(kData) names what is not supported or
  /// damaged.
  static std::unique_ptr<Tokenizer> from_json(const std::string& path);
  /// What lies in a model folder: its tokenizer.json, or the byte tokenizer where hgtrain wrote
  /// one.
  static std::unique_ptr<Tokenizer> from_folder(const std::string& folder);
  virtual ~Tokenizer() = default;

  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Any byte sequence may come out; ids out of range are Error(kData).
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t end_of_text() const = 0;  ///< -1 where there is none
  /// Copies the files that let `transformers` load it into a model folder.
  virtual void save(const std::string& folder) const = 0;
};

}  // namespace hgt
