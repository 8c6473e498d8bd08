#include "../../src/data/bpe_tokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/philox.h"

#include "tokenizer_fixtures.h"

using namespace hgt;
using nlohmann::json;

namespace {
json load(const std::string& name) {
  return parse_json<json>(read_file(kFixtures + name, 1 << 24));
}

/// The fixture without the added tokens that strip white space: they make cuts unsafe.
std::unique_ptr<Tokenizer> plain(const std::string& name) {
  json file = load(name);
  json kept = json::array();
  for (const json& token : file["added_tokens"])
    if (!token.at("lstrip").get<bool>() && !token.at("rstrip").get<bool>()) kept.push_back(token);
  file["added_tokens"] = kept;
  return make_bpe_tokenizer(parse_tokenizer_json(file.dump()), "", {});
}

}  // namespace

TEST_CASE("text that is cut at a safe place has the ids of the whole") {
  // Random text from the hard strings, in which line ends stand next to everything.
  const json cases = load("golden.json")["cases"];
  for (const char* name : {"gpt2.json", "llama3.json", "qwen3.json"}) {
    const auto tokenizer = plain(name);
    int cuts = 0;
    for (std::uint64_t round = 0; round < 600; ++round) {
      std::string text;
      for (std::uint64_t i = 0; i < 30; ++i) {
        const auto word = philox(1, round, i);
        text += cases[word[0] % cases.size()].get<std::string>();
        if (word[1] % 3 == 0) text += word[2] % 2 == 0 ? "\n" : "\r\n";
      }
      const std::size_t cut =
          tokenizer->safe_cut(std::string_view(text).substr(0, text.size() / 2));
      if (cut == 0) continue;
      ++cuts;
      auto ids = tokenizer->encode(text.substr(0, cut));
      const auto rest = tokenizer->encode(text.substr(cut));
      ids.insert(ids.end(), rest.begin(), rest.end());
      INFO(name << " cut at " << cut << " of " << json(text).dump());
      REQUIRE(ids == tokenizer->encode(text));
    }
    CHECK(cuts > 500);
  }
}

TEST_CASE("lines that end with other than letters can be cut") {
  for (const char* name : {"gpt2.json", "llama3.json", "qwen3.json"}) {
    CHECK(plain(name)->safe_cut("12.\nShe (1) ") == 7);
    CHECK(plain(name)->safe_cut("\u5929\u3002\n\u5730\u3002\n") == 7);
    CHECK(plain(name)->safe_cut("12.\n\xe5\xa4") == 0);  // half a character
  }
}

TEST_CASE("no place to cut is known if the tokenizer may look across it") {
  const std::string text = "some text\nand more\n";
  CHECK(plain("gpt2.json")->safe_cut(text) == 18);
  CHECK(plain("gpt2.json")->safe_cut("?\n12\n\n \n") == 0);  // no letter before a line end
  CHECK(plain("gpt2.json")->safe_cut("") == 0);
  CHECK(plain("gpt2.json")->safe_cut("1.\n\nA") == 0);  // the first line end goes with the second
  CHECK(Tokenizer::from_json(kFixtures + "gpt2.json")->safe_cut(text) == 0);  // <strip> takes \n
  CHECK(plain("llama2.json")->safe_cut(text) == 0);  // prepends to each text
  CHECK(plain("mixed.json")->safe_cut(text) == 0);   // unknown split pattern
}
