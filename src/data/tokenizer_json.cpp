#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/xxh3.h"

#include "bpe_tokenizer.h"

namespace hgt {

namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;                            // of nesting; real files have 6
constexpr std::int64_t kMaxIds = std::int64_t{1} << 24;  // bounds the table of ids
constexpr const char* kSaveAgain = "save the tokenizer again with transformers or tokenizers";

std::int32_t parse_id(const json& value) {
  const std::int64_t id = json_integer(value);
  if (id < 0 || id >= kMaxIds)
    throw Error(ErrorKind::kData, fmt::format("{} is not a token id", value.dump()), kSaveAgain);
  return static_cast<std::int32_t>(id);
}

/// A string, "" for null or what is not there.
std::string optional_string(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? "" : found->get<std::string>();
}

bool flag(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null() && found->get<bool>();
}

void check_model(const json& model) {
  constexpr const char* kBytePairs =
      "use one that merges bytes (BPE), as those of GPT-2, Llama 3 and Qwen do";
  const auto type = model.value("type", "BPE");
  if (type != "BPE")
    throw Error(ErrorKind::kData, fmt::format("tokenizers of type {} are not supported", type),
                kBytePairs);
  if (!model.contains("merges"))
    throw Error(ErrorKind::kData, "the tokenizer's model has no merges", kSaveAgain);
  const json& dropout = model.value("dropout", json());
  if (!dropout.is_null() && dropout.get<double>() != 0)
    throw Error(ErrorKind::kData, "a tokenizer with dropout is not supported",
                "set model.dropout to null in this file");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!optional_string(model, name).empty())
      throw Error(ErrorKind::kData, fmt::format("a tokenizer with {} is not supported", name),
                  kBytePairs);
}

/// "a b" or, since tokenizers 0.20, ["a", "b"].
std::vector<std::pair<std::string, std::string>> parse_merges(const json& list) {
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(list.size());
  for (const json& merge : list) {
    if (merge.is_array()) {
      merges.emplace_back(merge.at(0).get<std::string>(), merge.at(1).get<std::string>());
      continue;
    }
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (text.starts_with("#version")) continue;
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      throw Error(ErrorKind::kData, fmt::format("the merge \"{}\" is not two tokens", text),
                  kSaveAgain);
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

Bpe parse_model(const json& model) {
  check_model(model);
  Bpe::Vocabulary vocabulary;
  for (const auto& [token, id] : model.at("vocab").get_ref<const json::object_t&>())
    vocabulary.emplace(token, parse_id(id));
  return {std::move(vocabulary),
          parse_merges(model.at("merges")),
          {optional_string(model, "unk_token"), flag(model, "fuse_unk"),
           flag(model, "byte_fallback"), flag(model, "ignore_merges")}};
}

/// The special tokens that a post-processor puts around a text.
struct Around {
  std::vector<std::int32_t> before, after;
};

void parse_post_processor(const json& processor, Around& around) {
  if (processor.is_null()) return;
  const auto type = processor.at("type").get<std::string>();
  if (type == "ByteLevel") return;  // it changes offsets only
  if (type == "Sequence") {
    for (const json& step : processor.at("processors")) parse_post_processor(step, around);
    return;
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {  // ["<s>", 0] text ["</s>", 2]
    around.before.insert(around.before.begin(), parse_id(processor.at("cls").at(1)));
    around.after.push_back(parse_id(processor.at("sep").at(1)));
    return;
  }
  if (type != "TemplateProcessing")
    throw Error(ErrorKind::kData, fmt::format("the post-processor {} is not supported", type),
                "hgtrain knows ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing "
                "and Sequence");
  bool seen_text = false;
  std::vector<std::int32_t> before, after;
  for (const json& piece : processor.at("single")) {
    if (piece.contains("Sequence")) {
      seen_text = true;
      continue;
    }
    const auto name = piece.at("SpecialToken").at("id").get<std::string>();
    for (const json& id : processor.at("special_tokens").at(name).at("ids"))
      (seen_text ? after : before).push_back(parse_id(id));
  }
  around.before.insert(around.before.begin(), before.begin(), before.end());
  around.after.insert(around.after.end(), after.begin(), after.end());
}

/// Added tokens, and into which of the two groups each goes.
struct Added {
  std::vector<AddedToken> plain, normalized;
  bool keeps_cuts = true;  ///< none of them reaches across white space
};

Added parse_added_tokens(const json& list, const Normalizer& normalize) {
  Added added;
  for (const json& entry : list) {
    AddedToken token{entry.at("content").get<std::string>(), parse_id(entry.at("id")),
                     flag(entry, "single_word"), flag(entry, "lstrip"), flag(entry, "rstrip")};
    const bool normalized = flag(entry, "normalized");
    if (normalized && normalize) token.content = normalize(token.content);
    const std::size_t begin = std::min(token.content.find_first_not_of(' '), token.content.size());
    if (token.lstrip || token.rstrip ||
        token.content.find_first_of(" \r\n", begin) != std::string::npos)
      added.keeps_cuts = false;
    (normalized ? added.normalized : added.plain).push_back(std::move(token));
  }
  return added;
}

/// The bytes of every id: the model's tokens and the added ones.
std::vector<std::string> bytes_by_id(const Bpe& bpe, const json& added, const Decoder& decoder) {
  std::map<std::int32_t, std::string> tokens;
  for (const auto& [token, id] : bpe.vocabulary()) tokens[id] = token;
  for (const json& entry : added)
    tokens[parse_id(entry.at("id"))] = entry.at("content").get<std::string>();
  if (tokens.empty()) throw Error(ErrorKind::kData, "the vocabulary is empty");
  std::vector<std::string> bytes(static_cast<std::size_t>(tokens.rbegin()->first) + 1);
  for (const auto& [id, token] : tokens)
    bytes[static_cast<std::size_t>(id)] = decoder.bytes_of_token(token);
  return bytes;
}

TokenizerParts read_parts(const json& file) {
  const json normalizer = file.value("normalizer", json());
  const Normalizer normalize = parse_normalizer(normalizer);
  const json added_list = file.value("added_tokens", json::array());
  Added added = parse_added_tokens(added_list, normalize);
  PreTokenizer pre_tokenizer(file.value("pre_tokenizer", json()));
  Bpe bpe = parse_model(file.at("model"));
  Decoder decoder = parse_decoder(file.value("decoder", json()), pre_tokenizer.byte_level());
  std::vector<std::string> bytes = bytes_by_id(bpe, added_list, decoder);
  const bool cuts =
      pre_tokenizer.cuts_at_white_space() && normalizer_is_local(normalizer) && added.keeps_cuts;
  Around around;
  parse_post_processor(file.value("post_processor", json()), around);
  TokenizerParts parts{AddedTokens(std::move(added.plain)),
                       AddedTokens(std::move(added.normalized)),
                       normalize,
                       std::move(pre_tokenizer),
                       std::move(bpe),
                       std::move(bytes),
                       std::move(decoder),
                       std::move(around.before),
                       std::move(around.after),
                       {},
                       cuts};
  for (const json& entry : added_list)
    parts.names.emplace_back(entry.at("content").get<std::string>(), parse_id(entry.at("id")));
  return parts;
}

/// The fields from which read_parts() takes the ids, without those that may differ between two
/// files of one tokenizer.
json identity(const json& file) {
  const auto part = [&](const char* name) { return file.value(name, json()); };
  const json& model = file.at("model");
  json added = part("added_tokens");
  for (json& token : added) token.erase("special");
  Around around;
  parse_post_processor(part("post_processor"), around);
  return {model.at("vocab"),
          parse_merges(model.at("merges")),
          model.value("unk_token", json()),
          flag(model, "fuse_unk"),
          flag(model, "byte_fallback"),
          flag(model, "ignore_merges"),
          part("normalizer"),
          part("pre_tokenizer"),
          std::move(added),
          around.before,
          around.after};
}

/// read(JSON). Error(kData) if the text is not JSON, or if a field is missing or of another type.
template <class Read>
auto read_json(const std::string& text, Read read) {
  const auto limit_depth = [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) throw Error(ErrorKind::kData, "it is nested too deep");
    return true;
  };
  try {
    return read(json::parse(text, limit_depth));
  } catch (const json::parse_error&) {
    throw Error(ErrorKind::kData, "the file is not JSON, so it is not a tokenizer.json");
  } catch (const json::exception& e) {  // "[json.exception.out_of_range.403] key 'model' ..."
    const std::string_view what = e.what();
    throw Error(ErrorKind::kData,
                fmt::format("it is damaged: {}", what.substr(what.find(' ') + 1)));
  }
}

}  // namespace

TokenizerParts parse_tokenizer_json(const std::string& text) {
  return read_json(text, read_parts);
}

std::uint64_t tokenizer_identity(const std::string& text) {
  return xxh3(read_json(text, identity).dump());
}

}  // namespace hgt
