#include "hgtrain/data/prepare.h"

#include <algorithm>
#include <deque>
#include <thread>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "encode_unit.h"
#include "prepared_files.h"
#include "task_pool.h"
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

std::size_t thread_count(std::int64_t asked) {
  if (asked < 0 || asked > 4096)
    throw Error(ErrorKind::kConfig, fmt::format("--threads {} is not in 0 .. 4096", asked));
  return asked > 0 ? static_cast<std::size_t>(asked)
                   : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options,
                      const std::function<bool(const PrepareProgress&)>& go_on) {
  const std::size_t threads = thread_count(options.threads);
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  const std::int32_t end_of_text = end_of_text_of(*tokenizer, options.end_of_text);
  const SourceFiles sources = find_sources(options.inputs, options.out + ".");
  const bool fits = tokenizer->vocab_size() <= 1 << 16;
  PreparedFiles files(options.out, fits ? TokenType::kUint16 : TokenType::kInt32,
                      options.overwrite);

  PrepareProgress progress;
  for (const SourceFile& file : sources.files) progress.bytes_total += file.bytes;
  PrepareResult result;
  TextUnits units(sources.files, *tokenizer);
  // Units are encoded out of order and written in order; so many are under way at once.
  const std::size_t window = 2 * threads + 2;
  std::deque<std::future<EncodedUnit>> under_way;
  TaskPool pool(threads);
  while (true) {
    while (under_way.size() < window) {
      TextUnit unit = units.next();
      if (unit.empty()) break;
      under_way.push_back(pool.run([&, unit = std::move(unit)] {
        return encode_unit(unit, *tokenizer, end_of_text, options.json_field);
      }));
    }
    if (under_way.empty()) break;
    const EncodedUnit unit = under_way.front().get();
    under_way.pop_front();
    write(unit, files);
    result.empty_documents += unit.empty_documents;
    progress.bytes_read = units.bytes_taken();
    progress.tokens = files.num_tokens();
    if (!go_on(progress)) return {.stopped = true};
  }

  result.hidden_files = sources.hidden;
  result.binary_files = units.binary_files();
  Manifest& m = result.manifest;
  m.tokenizer = tokenizer->kind();
  m.vocab_size = tokenizer->vocab_size();
  m.end_of_text = end_of_text;
  m.source_bytes = units.text_bytes();
  m.source_files = std::ssize(sources.files) - units.binary_files();
  if (files.num_tokens() == 0)
    throw Error(ErrorKind::kConfig, "the input holds no text: every file is empty or binary");
  files.commit(m, *tokenizer);
  return result;
}

}  // namespace hgt
