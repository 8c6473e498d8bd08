#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/data/inspect.h"

#include "commands.h"
#include "options.h"

namespace hgt {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const TokenReport& report) {
  ordered_json json = {{"path", report.path},
                       {"format", name_of(report.format)},
                       {"dtype", name_of(report.type)},
                       {"tokens", report.tokens},
                       {"max_token", report.max_token}};
  if (report.documents >= 0) json["documents"] = report.documents;
  if (report.manifest) json["manifest"] = parse_json<ordered_json>(to_text(*report.manifest));
  json["first_tokens"] = report.first;
  if (report.first_text) json["first_text"] = *report.first_text;
  return json;
}

class DataInspect final : public Command {
 public:
  std::string_view name() const override { return "data inspect"; }
  std::string_view summary() const override { return "show what a token file holds"; }

  void add_options(Options& options) override {
    options.add("PATH", options_.path, "prefix, .bin or .idx").required();
    options.add("--token_dtype", options_.token_dtype,
                "type of the tokens in a file without header: uint16 or uint32");
    options.add("--tokenizer", options_.tokenizer, "to decode with (default: the data's own)");
    options.add("--show", options_.show, "tokens to show from the start (default: 32)");
    options.add_flag("--verify", options_.verify, "read everything and compare with the manifest");
    options.add_flag("--json", json_, "print JSON");
  }

  int run(const std::vector<std::string>&) override {
    const TokenReport report = inspect(options_);
    if (json_)  // text cut within a character is not UTF-8
      say("{}\n", to_json(report).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else
      print(report);
    return 0;
  }

 private:
  void print(const TokenReport& report) const {
    say("file       {}\nformat     {}, {}\ntokens     {}\n", report.path, name_of(report.format),
        name_of(report.type), report.tokens);
    if (report.documents >= 0) say("documents  {}\n", report.documents);
    say("largest id {}\n", report.max_token);
    if (report.manifest)
      say("tokenizer  {}, vocab_size {}, end of text {}\n", report.manifest->tokenizer,
          report.manifest->vocab_size, report.manifest->end_of_text);
    if (options_.verify) say("verified   hashes and counts are those of the manifest\n");
    say("starts     {}\n", fmt::join(report.first, " "));
    if (report.first_text)
      say("that is    {}\n", ordered_json(*report.first_text)
                                 .dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }

  InspectOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> data_inspect_command() {
  return std::make_unique<DataInspect>();
}

}  // namespace hgt
