#include "generate_worker.h"

#include <charconv>
#include <cstdio>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/checked.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/hf_config.h"
#include "hgtrain/data/tokenizer.h"
#include "hgtrain/data/utf8.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/compute_stream.h"
#include "hgtrain/infer/generate.h"
#include "hgtrain/infer/model_folder.h"
#include "hgtrain/infer/text_stream.h"
#include "hgtrain/model/decoder.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxPromptBytes = 64 << 20;

/// The flags of `hgtrain generate`.
struct Request {
  std::string model, prompt, output;  ///< output: text, continuation or json
  std::string weights;                ///< model or ema
  bool cuda = false;                  ///< on the first GPU
  DType dtype = DType::kF32;          ///< to compute in
  std::int64_t max_tokens = 0, threads = 0;
  SamplingOptions sampling;
};

template <class T>
T number(const std::map<std::string, std::string>& values, const std::string& name, T least) {
  const std::string& text = values.at(name);
  T value{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || value < least)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} = {} is not a number from {} on", name, text, least));
  return value;
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    if (name == name_of(dtype)) return dtype;
  throw Error(ErrorKind::kConfig, fmt::format("there is no --dtype {}", name));
}

Request parse(const std::vector<std::string>& args) {
  std::map<std::string, std::string> values;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) values[args[i]] = args[i + 1];
  try {
    return {.model = values.at("--model"),
            .prompt = values.at("--prompt"),
            .output = values.at("--output"),
            .weights = values.at("--weights"),
            .cuda = values.at("--device") == "cuda",
            .dtype = dtype_of(values.at("--dtype")),
            .max_tokens = number<std::int64_t>(values, "--max_tokens", 0),
            .threads = number<std::int64_t>(values, "--threads", 0),
            .sampling = {.temperature = number<double>(values, "--temperature", 0),
                         .top_k = number<std::int64_t>(values, "--top_k", 0),
                         .top_p = number<double>(values, "--top_p", 0),
                         .seed = number<std::uint64_t>(values, "--seed", 0)}};
  } catch (const std::out_of_range&) {
    throw Error(ErrorKind::kConfig, "hgtrain-worker generate lacks a flag", "use hgtrain generate");
  }
}

/// `-` stands for standard input, whose last newline is not part of the prompt.
std::string read_prompt(const std::string& prompt) {
  if (prompt != "-") return prompt;
  std::string text = read_input("-", kMaxPromptBytes, ErrorKind::kConfig);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

int threads_of(const Request& request) {
  return request.threads > 0 ? checked_cast<int>(request.threads, "--threads", ErrorKind::kConfig)
                             : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// A model folder, loaded.
class Generator {
 public:
  Generator(const std::string& folder, const Request& request)
      : config_(read_hf_config(folder)),
        table_(parameter_table(config_, false)),
        tokenizer_(Tokenizer::from_folder(folder)),
        end_ids_(end_ids(folder)),
        device_(request.cuda, threads_of(request)),
        dtype_(request.dtype),
        weights_(load(folder, request.weights)) {}

  std::vector<std::int32_t> encode(const std::string& prompt) const {
    auto ids = tokenizer_->encode(prompt, true);
    if (ids.empty() && tokenizer_->end_of_text() >= 0) ids.push_back(tokenizer_->end_of_text());
    if (ids.empty())
      throw Error(ErrorKind::kConfig,
                  "the prompt is empty, and the model's tokenizer has no token to start with");
    return ids;
  }

  std::int64_t context_length() const { return config_.max_position_embeddings; }

  StopReason run(std::span<const std::int32_t> prompt, const Request& request,
                 const std::function<void(std::string_view)>& on_text) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    const std::int64_t context = context_length();
    const auto decoder = Decoder::create(
        config_, table_, tensor(weights_),
        length < context ? length + std::min(context - length, request.max_tokens) : context,
        device_.get());
    Sampler sampler(request.sampling, device_.get());
    // A vocabulary padded beyond the tokenizer's has ids without a text.
    const std::int64_t known = std::min(config_.vocab_size, tokenizer_->vocab_size());
    return generate(
        [&](auto tokens) { return decoder->append(tokens).slice(0, 0, known); }, prompt, sampler,
        {.max_tokens = request.max_tokens, .context_length = context, .end_ids = end_ids_},
        [&](std::int32_t token) {
          on_text(tokenizer_->decode({&token, 1}));
        });
  }

 private:
  Tensor tensor(const Buffer& weights) const {
    return Tensor(weights.data(), {table_.total}, dtype_, weights.device());
  }

  /// The weights in the type and on the device that compute.
  Buffer load(const std::string& folder, const std::string& which) {
    Buffer weights("weights", table_.total * static_cast<std::int64_t>(size_of(dtype_)));
    load_hf_weights(folder, config_, table_, tensor(weights), which);
    const Stream stream = device_.get();
    if (stream.device().is_cpu()) return weights;
    Buffer there(weights.name(), weights.bytes(), stream.device());
    stream.copy(there.data(), weights.data(), static_cast<std::size_t>(weights.bytes()));
    stream.synchronize();
    return there;
  }

  const ModelConfig config_;
  const ParameterTable table_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::vector<std::int32_t> end_ids_;
  ComputeStream device_;
  const DType dtype_;
  const Buffer weights_;
};

void print(std::string_view text) {
  const std::string shown = isatty(STDOUT_FILENO) == 1 ? printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  if (std::fflush(stdout) != 0) throw_file_error("write", "standard output", errno);
}

/// Text as it comes; a line end behind the last.
void print_text(Generator& generator, const std::vector<std::int32_t>& ids,
                const std::string& prompt, const Request& request) {
  TextStream stream;
  char last = '\n';
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    last = text.back();
    print(text);
  };
  std::string held = request.output == "text" ? prompt : "";  // until nothing is wrong with it
  const StopReason stop = generator.run(ids, request, [&](std::string_view text) {
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
                const std::string& prompt, const std::string& folder, const Request& request) {
  std::string text;
  std::int64_t tokens = 0;
  const std::int64_t start_ns = now_ns();
  const StopReason stop = generator.run(ids, request, [&](std::string_view piece) {
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

int generate_worker(const std::vector<std::string>& args) {
  try {
    const Request request = parse(args);
    check(request.sampling);  // before the model is read
    const std::string folder = find_model_folder(request.model);
    const std::string prompt = read_prompt(request.prompt);
    Generator generator(folder, request);
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
