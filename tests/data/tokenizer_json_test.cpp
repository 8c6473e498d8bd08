#include <filesystem>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/data/tokenizer.h"

#include "../../src/data/bpe_tokenizer.h"
#include "support/temporary_folder.h"
#include "tokenizer_fixtures.h"

using namespace hgt;
using Catch::Contains;
using nlohmann::json;

namespace {

/// tests/golden/make_tokenizers.py: what HF's tokenizers give.
const json& golden() {
  static const json instance = parse_json<json>(read_file(kFixtures + "golden.json", 1 << 24));
  return instance;
}

using Ids = std::vector<std::int32_t>;

/// A small byte-level tokenizer.json to be spoilt.
json tiny() {
  return parse_json<json>(R"({"added_tokens": [{"id": 4, "content": "<eos>", "special": true}],
    "normalizer": null, "post_processor": null, "decoder": {"type": "ByteLevel"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": ["a b", "ab a"]}})");
}

std::string refusal_of_file(const json& file) {
  try {
    parse_tokenizer_json(file.dump());
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kData);
    return e.message();
  }
  return "";
}

std::string refusal_of_file(const char* pointer, const json& value) {
  json file = tiny();
  file[json::json_pointer(pointer)] = value;
  return refusal_of_file(file);
}

}  // namespace

TEST_CASE("ids are those of HF's tokenizers on hard text") {
  for (const auto& [name, expected] : golden().at("ids").items()) {
    const auto tokenizer = Tokenizer::from_json(kFixtures + name + ".json");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto text = golden().at("cases")[i].get<std::string>();
      INFO(name << ": " << json(text).dump());
      CHECK(tokenizer->encode(text) == expected[i].get<Ids>());
    }
  }
}

TEST_CASE("the post-processor's special tokens are added if asked for") {
  for (const auto& [name, expected] : golden().at("ids_with_special_tokens").items()) {
    const auto tokenizer = Tokenizer::from_json(kFixtures + name + ".json");
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(tokenizer->encode(golden().at("cases")[i].get<std::string>(), true) ==
            expected[i].get<Ids>());
  }
}

TEST_CASE("bytes that are not UTF-8 are read as with Python's errors=replace") {
  const auto tokenizer = Tokenizer::from_json(kFixtures + "gpt2.json");
  for (std::size_t i = 0; i < golden().at("broken").size(); ++i) {
    const auto hex = golden()["broken"][i].get<std::string>();
    std::string bytes;
    for (std::size_t at = 0; at < hex.size(); at += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
    INFO(hex);
    CHECK(tokenizer->encode(bytes) == golden()["broken_ids"][i].get<Ids>());
  }
}

TEST_CASE("decoding gives the text back") {
  for (const char* name : {"gpt2", "llama3", "llama2"}) {
    const auto tokenizer = Tokenizer::from_json(kFixtures + name + ".json");
    for (const auto& c : golden().at("cases")) {
      const auto text = c.get<std::string>();
      if (text.find('<') != std::string::npos || text.find("▁") != std::string::npos) continue;
      CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
    }
    CHECK_THROWS_WITH(tokenizer->decode(Ids{100000}), Contains("100000"));
    CHECK_THROWS_WITH(tokenizer->decode(Ids{-1}), Contains("-1"));
  }
}

TEST_CASE("many threads encode with one tokenizer") {
  const auto tokenizer = Tokenizer::from_json(kFixtures + "llama3.json");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < golden()["cases"].size(); ++i)
        if (tokenizer->encode(golden()["cases"][i].get<std::string>()) !=
            golden()["ids"]["llama3"][i].get<Ids>())
          ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a feature of a tokenizer.json that is not supported is refused by name") {
  CHECK(refusal_of_file(tiny()) == "");
  CHECK_THAT(refusal_of_file("/model/type", "Unigram"), Contains("Unigram"));
  CHECK_THAT(refusal_of_file("/model/dropout", 0.1), Contains("dropout"));
  CHECK_THAT(refusal_of_file("/model/end_of_word_suffix", "</w>"), Contains("end_of_word_suffix"));
  CHECK_THAT(refusal_of_file("/normalizer", {{"type", "Lowercase"}}), Contains("Lowercase"));
  CHECK_THAT(refusal_of_file("/pre_tokenizer", {{"type", "Whitespace"}}), Contains("Whitespace"));
  CHECK_THAT(refusal_of_file("/decoder", {{"type", "WordPiece"}}), Contains("WordPiece"));
  CHECK_THAT(refusal_of_file("/post_processor", {{"type", "PairProcessing"}}),
             Contains("PairProcessing"));
}

TEST_CASE("a damaged tokenizer.json is refused with what is wrong") {
  CHECK_THAT(refusal_of_file("/model/merges", {"a c"}), Contains("\"c\" is in a merge"));
  CHECK_THAT(refusal_of_file("/model/merges", {"a b c"}), Contains("not two tokens"));
  CHECK_THAT(refusal_of_file("/model/merges", {"ab"}), Contains("not two tokens"));
  CHECK_THAT(refusal_of_file("/model/merges", parse_json<json>(R"([["a"]])")), Contains("damaged"));
  CHECK_THAT(refusal_of_file("/model/vocab", {{"a", -1}}), Contains("-1 is not a token id"));
  CHECK_THAT(refusal_of_file("/model/vocab", {{"a", 1ll << 40}}), Contains("is not a token id"));
  CHECK_THAT(refusal_of_file("/model/vocab", {{"a", 1e99}}), Contains("damaged"));
  CHECK_THAT(refusal_of_file("/model/vocab", {1, 2}), Contains("damaged"));
  CHECK_THAT(refusal_of_file("/model", nullptr),
             Contains("it is damaged: ") && !Contains("json.exception"));
  CHECK_THAT(refusal_of_file("/added_tokens", {{{"id", 0}}}), Contains("content"));
  CHECK_THAT(refusal_of_file(parse_json<json>("[1]")), Contains("damaged"));
  json deep = tiny()["pre_tokenizer"];
  for (int i = 0; i < 100; ++i) deep = {{"type", "Sequence"}, {"pretokenizers", {deep}}};
  CHECK_THAT(refusal_of_file("/pre_tokenizer", deep), Contains("nested too deep"));
  CHECK_THROWS_WITH(parse_tokenizer_json("{\"model\": "),
                    Contains("is not JSON, so it is not a tokenizer.json"));
}
