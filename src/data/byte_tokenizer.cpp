#include "byte_tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/data/tokenizer.h"

#include "byte_alphabet.h"

namespace hgt {

namespace {

constexpr std::int32_t kEndOfText = 256;
constexpr std::string_view kEndOfTextName = "<|endoftext|>";

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text, bool) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id > kEndOfText)
        throw Error(
            ErrorKind::kData,
            fmt::format("token id {} is outside the byte tokenizer's vocabulary of 257", id));
      if (id == kEndOfText)
        text += kEndOfTextName;
      else
        text += static_cast<char>(id);
    }
    return text;
  }

  std::size_t safe_cut(std::string_view text) const override {
    return text.empty() ? 0 : text.size() - 1;
  }
  std::string_view kind() const override { return "byte"; }
  std::int64_t vocab_size() const override { return kEndOfText + 1; }
  std::int32_t end_of_text() const override { return kEndOfText; }

  std::int32_t id_of(std::string_view token) const override {
    if (token == kEndOfTextName) return kEndOfText;
    const auto bytes = bytes_of(token);
    return bytes && bytes->size() == 1 ? static_cast<unsigned char>(bytes->front()) : -1;
  }

  void save(const std::string& folder) const override {
    const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                           {"eos_token", kEndOfTextName},
                                           {"clean_up_tokenization_spaces", false}};
    write_file_atomically(folder + "/tokenizer.json", byte_tokenizer_json());
    write_file_atomically(folder + "/tokenizer_config.json", config.dump(2) + "\n");
  }
};

}  // namespace

std::string byte_tokenizer_json() {
  using nlohmann::ordered_json;
  ordered_json vocab = ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[letter_of(static_cast<unsigned char>(byte))] = byte;
  ordered_json byte_level = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", false}};
  const ordered_json json = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", ordered_json::array({{{"id", kEndOfText},
                                                                    {"content", kEndOfTextName},
                                                                    {"single_word", false},
                                                                    {"lstrip", false},
                                                                    {"rstrip", false},
                                                                    {"normalized", false},
                                                                    {"special", true}}})},
                             {"normalizer", nullptr},
                             {"pre_tokenizer", byte_level},
                             {"post_processor", nullptr},
                             {"decoder", byte_level},
                             {"model",
                              {{"type", "BPE"},
                               {"dropout", nullptr},
                               {"unk_token", nullptr},
                               {"continuing_subword_prefix", nullptr},
                               {"end_of_word_suffix", nullptr},
                               {"fuse_unk", false},
                               {"byte_fallback", false},
                               {"ignore_merges", false},
                               {"vocab", vocab},
                               {"merges", ordered_json::array()}}}};
  return json.dump(2) + "\n";
}

std::unique_ptr<Tokenizer> Tokenizer::byte() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace hgt
