#include "../../src/checkpoint/manifest.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

std::string seal(const std::string& body) {
  return body + manifest_seal(body);
}

std::string refusal(const std::string& text) {
  try {
    parse_manifest(text);
  } catch (const Error& e) {
    CHECK(e.exit_code() == 4);
    return e.message() + " " + e.hint();
  }
  return "";
}

const std::string kBody =
    R"({"format":"hgtrain checkpoint","version":2,"step":7,"layout":{"data_parallel_size":2,)"
    R"("tensor_parallel_size":1,"pipeline_parallel_size":1},)"
    R"("files":{"config.json":{"bytes":3,"xxh3":"0123456789abcdef"}})";

std::string with(const std::string& old_text, const std::string& new_text) {
  std::string body = kBody;
  body.replace(body.find(old_text), old_text.size(), new_text);
  return seal(body);
}

}  // namespace

TEST_CASE("a manifest is read as it was written") {
  CheckpointManifest manifest;
  manifest.step = 100;
  manifest.layout = {.data_parallel_size = 4,
                     .tensor_parallel_size = 2,
                     .pipeline_parallel_size = 3,
                     .context_parallel_size = 5,
                     .virtual_pipeline_stages = 6};
  manifest.files["config.json"] = {10, 0xffffffffffffffffu, {}};
  manifest.files["model.safetensors"] = {
      1'000'000'000'000,
      1,
      {{"a.b", {{0, 2}}}, {"c \"d\"", {{0, 3}, {1 << 24, 4}, {99'999'999'999, 5}}}}};
  const CheckpointManifest back = parse_manifest(manifest_text(manifest));
  CHECK(back.step == 100);
  CHECK(back.layout.data_parallel_size == 4);
  CHECK(back.layout.tensor_parallel_size == 2);
  CHECK(back.layout.pipeline_parallel_size == 3);
  CHECK(back.layout.context_parallel_size == 5);
  CHECK(back.layout.virtual_pipeline_stages == 6);
  CHECK(back.files.at("config.json").hash == 0xffffffffffffffffu);
  CHECK(back.files.at("model.safetensors").bytes == 1'000'000'000'000);
  CHECK(back.files.at("model.safetensors").tensors == manifest.files["model.safetensors"].tensors);
}

TEST_CASE("a manifest of an earlier version names no context ranks and no virtual stages") {
  const CheckpointManifest manifest = parse_manifest(seal(kBody));
  CHECK(manifest.layout.data_parallel_size == 2);
  CHECK(manifest.layout.context_parallel_size == 1);
  CHECK(manifest.layout.virtual_pipeline_stages == 1);
}

TEST_CASE("a manifest that is not whole, not ours or hostile is refused") {
  using Catch::Contains;
  CHECK(refusal(seal(kBody)) == "");
  CHECK_THAT(refusal(""), Contains("its own hash"));
  CHECK_THAT(refusal(kBody + "}"), Contains("its own hash"));
  CHECK_THAT(refusal(seal(kBody) + " "), Contains("its own hash"));
  CHECK_THAT(refusal(with("hgtrain checkpoint", "x")), Contains("not an hgtrain checkpoint"));
  CHECK_THAT(refusal(with("\"version\":2", "\"version\":3")),
             Contains("format version 3, this program reads versions 1 and 2") &&
                 Contains("the version of hgtrain"));
  CHECK(refusal(with("\"version\":2", "\"version\":1")) == "");
  CHECK_THAT(refusal(with("config.json", "../config.json")), Contains("outside its folder"));
  CHECK(refusal(with("config.json", "a/b")) == "");
  for (const char* outside : {"/a", "a/../../b", "a//b", "a/", ".", "a/.b"})
    CHECK_THAT(refusal(with("config.json", outside)), Contains("outside its folder"));
  CHECK_THAT(refusal(with("0123456789abcdef", "0123456789abcdeg")), Contains("16 hex digits"));
  CHECK_THAT(refusal(with("0123456789abcdef", "012345")), Contains("16 hex digits"));
  CHECK_THAT(refusal(with("\"step\":7", "\"step\":\"7\"")), Contains("the manifest is damaged"));
  CHECK_THAT(refusal(with("\"step\":7", "\"step\":7e99")), Contains("the manifest is damaged"));
  CHECK_THAT(refusal(with("\"bytes\":3,", "")), Contains("the manifest is damaged"));
  CHECK_THAT(refusal(seal("{")), Contains("the manifest is damaged"));
  CHECK_THAT(refusal(seal("[1")), Contains("the manifest is damaged"));
  CHECK_THAT(refusal(seal(std::string(100000, '['))), Contains("the manifest is damaged"));
}

TEST_CASE("ranges of a tensor that are not whole or not in order are refused") {
  const auto with_ranges = [](const std::string& ranges) {
    return refusal(with(R"("xxh3":"0123456789abcdef")",
                        R"("header_xxh3":"0123456789abcdef","tensors":{"w":")" + ranges + "\"}"));
  };
  const std::string hash = "0123456789abcdef";
  CHECK(with_ranges(hash) == "");
  CHECK(with_ranges(hash + " 4 " + hash + " 9223372036854775807 " + hash) == "");
  for (const char* bad : {"", " ", "4", "0123456789abcdef 4", "0123456789abcdef  0123456789abcdef"})
    CHECK_THAT(with_ranges(bad), Catch::Contains("the manifest is damaged"));
  for (const char* begin : {"0", "-1", "4.5", "x", "9223372036854775808"})
    CHECK_THAT(with_ranges(hash + " " + begin + " " + hash),
               Catch::Contains("blocks are not in order"));
  CHECK_THAT(with_ranges(hash + " 8 " + hash + " 4 " + hash),
             Catch::Contains("blocks are not in order"));
}
