#include "hgtrain/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/task_pool.h"

#include "encode_unit.h"
#include "prepared_files.h"
#include "text_units.h"

namespace hgt {

namespace {

std::int32_t end_of_text_of(const Tokenizer& tokenizer, const std::string& name) {
  const std::int32_t id = name.empty() ? tokenizer.end_of_text() : tokenizer.id_of(name);
  if (id >= 0) return id;
  throw Error(ErrorKind::kConfig,
              name.empty() ? "the tokenizer does not say which token ends a text"
                           : fmt::format("the tokenizer has no token \"{}\"", name),
              "name one of its tokens with --end_of_text");
}

void write(const EncodedUnit& unit, PreparedFiles& files) {
  const std::span<const std::int32_t> tokens(unit.tokens);
  std::size_t begin = 0;
  for (const std::size_t end : unit.ends) {
    files.append(tokens.subspan(begin, end - begin));
    files.end_document();
    begin = end;
  }
  files.append(tokens.subspan(begin));
}

/// The tokens of units, made by several threads out of order and handed out in order.
class EncodedUnits {
 public:
  EncodedUnits(TextUnits& units, const Tokenizer& tokenizer, const EncodeOptions& options,
               std::size_t threads)
      : units_(units),
        tokenizer_(tokenizer),
        options_(options),
        window_(2 * threads + 2),
        pool_(threads) {
    options_.stop = &stop_;
  }
  ~EncodedUnits() { stop_ = true; }

  /// nullopt at the end, or if `keep_going`, which it calls while it waits, returns false.
  std::optional<EncodedUnit> next(const std::function<bool()>& keep_going) {
    while (under_way_.size() < window_ && bytes_under_way_ < window_ * kChunkBytes && begin_one())
      continue;
    if (under_way_.empty()) return std::nullopt;
    const auto& result = under_way_.front().result;
    while (result.wait_for(kLook) == std::future_status::timeout)
      if (!keep_going()) return std::nullopt;
    EncodedUnit unit = under_way_.front().result.get();
    bytes_under_way_ -= under_way_.front().bytes;
    under_way_.pop_front();
    return unit;
  }

 private:
  static constexpr std::chrono::milliseconds kLook{100};

  struct UnderWay {
    std::future<EncodedUnit> result;
    std::size_t bytes;  ///< of text that is held in memory for it
  };

  bool begin_one() {
    TextUnit unit = units_.next();
    if (unit.empty()) return false;
    std::size_t bytes = 0;
    for (const TextPart& part : unit) bytes += part.text.size();
    bytes_under_way_ += bytes;
    under_way_.push_back({pool_.run([this, unit = std::move(unit)] {
                            return encode_unit(unit, tokenizer_, options_);
                          }),
                          bytes});
    return true;
  }

  TextUnits& units_;
  const Tokenizer& tokenizer_;
  std::atomic<bool> stop_ = false;
  EncodeOptions options_;
  const std::size_t window_;
  std::size_t bytes_under_way_ = 0;
  std::deque<UnderWay> under_way_;
  TaskPool pool_;
};

std::size_t thread_count(std::int64_t asked) {
  if (asked < 0 || asked > 4096)
    throw Error(ErrorKind::kConfig, fmt::format("--threads {} is not from 0 to 4096", asked));
  return asked > 0 ? static_cast<std::size_t>(asked)
                   : std::max(1u, std::thread::hardware_concurrency());
}

[[noreturn]] void throw_no_text(const PrepareResult& result) {
  if (!result.json_files.empty())
    throw Error(
        ErrorKind::kConfig,
        fmt::format("the input holds no text: {} is JSON, but not an object on each line",
                    result.json_files.front()),
        "write each element of an array on a line of its own: jq -c '.[]' FILE > FILE.jsonl");
  if (result.bad_lines > 0)
    throw Error(ErrorKind::kConfig,
                "the input holds no text: every line is bad; the first is " + result.first_bad_line,
                "name the field of the text: --json_field NAME");
  throw Error(ErrorKind::kConfig, "the input holds no text: every file is empty or binary");
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options,
                      const std::function<bool(const PrepareProgress&)>& keep_going) {
  const std::size_t threads = thread_count(options.threads);
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  const std::int32_t end_of_text = end_of_text_of(*tokenizer, options.end_of_text);
  const SourceFiles sources = find_sources(options.inputs, options.out + ".");
  const bool fits = tokenizer->vocab_size() <= 1 << 16;
  PreparedFiles files(options.out, fits ? TokenType::kUint16 : TokenType::kInt32, *tokenizer,
                      options.overwrite);

  PrepareProgress progress;
  for (const SourceFile& file : sources.files) progress.bytes_total += file.bytes;
  PrepareResult result;
  TextUnits units(sources.files, *tokenizer, options.skip_bad_lines);
  EncodedUnits encoded(units, *tokenizer, {end_of_text, options.json_field, options.skip_bad_lines},
                       threads);
  BadLines bad_lines;
  const auto goes_on = [&] {
    progress.bytes_read = units.bytes_taken();
    progress.tokens = files.num_tokens();
    result.stopped = !keep_going(progress);
    return !result.stopped;
  };
  while (const auto unit = encoded.next(goes_on)) {
    write(*unit, files);
    result.empty_documents += unit->empty_documents;
    bad_lines.add(unit->bad_lines);
    if (!goes_on()) break;
  }
  if (result.stopped) return result;

  result.hidden_files = sources.hidden;
  result.binary_files = units.binary_files();
  result.other_files = sources.other;
  result.json_files = units.json_files();
  bad_lines.add(units.bad_lines());
  result.bad_lines = bad_lines.count;
  result.first_bad_line = bad_lines.first;
  Manifest& m = result.manifest;
  m.tokenizer = tokenizer->kind();
  m.vocab_size = tokenizer->vocab_size();
  m.end_of_text = end_of_text;
  if (!tokenizer->ids_before().empty()) m.begin_of_text = tokenizer->ids_before().front();
  m.source_bytes = units.text_bytes();
  m.source_files =
      std::ssize(sources.files) - std::ssize(units.binary_files()) - std::ssize(units.json_files());
  if (files.num_tokens() == 0) throw_no_text(result);
  files.commit(m);
  return result;
}

}  // namespace hgt
