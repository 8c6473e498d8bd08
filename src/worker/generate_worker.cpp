#include <algorithm>
#include <cstdio>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/utf8.h"
#include "hgtrain/infer/generator.h"
#include "hgtrain/infer/model_folder.h"
#include "hgtrain/infer/text_stream.h"
#include "hgtrain/report/human.h"

#include "commands.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxPromptBytes = 64 << 20;

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    if (name == name_of(dtype)) return dtype;
  throw Error(ErrorKind::kConfig, fmt::format("there is no --dtype {}", name));
}

/// `-` stands for standard input, whose last newline is not part of the prompt.
std::string read_prompt(const std::string& prompt) {
  if (prompt != "-") return prompt;
  std::string text = read_input("-", kMaxPromptBytes, ErrorKind::kConfig);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Generator::Options options_of(const GenerateRequest& request) {
  const std::int64_t threads =
      request.threads > 0 ? request.threads : std::max(1u, std::thread::hardware_concurrency());
  return {.weights = request.weights,
          .dtype = dtype_of(request.dtype),
          .cuda = request.device == "cuda",
          .threads = static_cast<int>(threads)};
}

SamplingOptions sampling_of(const GenerateRequest& request) {
  return {.temperature = request.temperature,
          .top_k = request.top_k,
          .top_p = request.top_p,
          .seed = request.seed};
}

void print(std::string_view text) {
  const std::string shown = isatty(STDOUT_FILENO) == 1 ? printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (std::fflush(stdout) != 0) throw_file_error("write", "standard output", errno);
}

/// Prints the text piece by piece, and a newline at the end.
void print_text(Generator& generator, const std::vector<std::int32_t>& ids,
                const std::string& prompt, const GenerateRequest& request) {
  TextStream stream;
  char last = '\n';
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    last = text.back();
    print(text);
  };
  std::string held =
      request.output == "text" ? prompt : "";  // held back until the prompt is accepted
  const StopReason stop =
      generator.run(ids, request.max_tokens, sampling_of(request), [&](std::string_view text) {
        show(stream.add(std::exchange(held, {}) + std::string(text)));
      });
  show(stream.add(held) + stream.finish());
  if (last != '\n') print("\n");
  if (stop == StopReason::kContextFull)
    fmt::print(
        stderr,
        "hgtrain: note: the text stops here: the model's context of {} is full, and does not "
        "slide\n",
        human_plural(generator.context_length(), "token"));
}

void print_json(Generator& generator, const std::vector<std::int32_t>& ids,
                const std::string& prompt, const std::string& folder,
                const GenerateRequest& request) {
  std::string text;
  std::int64_t tokens = 0;
  const std::int64_t start_ns = now_ns();
  const StopReason stop =
      generator.run(ids, request.max_tokens, sampling_of(request), [&](std::string_view piece) {
        text += piece;
        ++tokens;
      });
  const nlohmann::ordered_json out{
      {"model", replace_invalid_utf8(folder)},
      {"prompt", replace_invalid_utf8(prompt)},
      {"text", replace_invalid_utf8(text)},
      {"prompt_tokens", ids.size()},
      {"tokens", tokens},
      {"stop", name_of(stop)},
      {"tokens_per_sec", static_cast<double>(tokens) / (ms_since(start_ns) * 1e-3)}};
  print(out.dump(2) + "\n");
}

}  // namespace

int generate_worker(const GenerateRequest& request) {
  try {
    check(sampling_of(request));  // before the model is read
    const std::string folder = find_model_folder(request.model);
    const std::string prompt = read_prompt(request.prompt);
    Generator generator(folder, options_of(request));
    const auto ids = generator.encode(prompt);
    if (request.output == "json")
      print_json(generator, ids, prompt, folder, request);
    else
      print_text(generator, ids, prompt, request);
    return 0;
  } catch (const Error& e) {
    std::fputs(e.render("hgtrain").c_str(), stderr);
    return e.exit_code();
  }
}

}  // namespace hgt
