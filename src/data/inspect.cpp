#include "hgtrain/data/inspect.h"

#include <algorithm>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/data/tokenizer.h"

#include "content_hash.h"

namespace hgt {

namespace {

constexpr std::int64_t kAnyId = std::int64_t{1} << 31;

std::int64_t largest_id(const TokenFile& file) {
  std::int64_t largest = -1;
  std::vector<std::int32_t> tokens;
  for (std::int64_t at = 0; at < file.num_tokens(); at += std::ssize(tokens)) {
    tokens.resize(
        static_cast<std::size_t>(std::min<std::int64_t>(1 << 20, file.num_tokens() - at)));
    file.read(at, tokens, kAnyId);
    largest = std::max<std::int64_t>(largest, std::ranges::max(tokens));
  }
  return largest;
}

void check_hash(const std::string& path, std::uint64_t expected) {
  if (const std::uint64_t hash = hash_file(path); hash != expected)
    throw Error(
        ErrorKind::kData,
        fmt::format(
            "{} is not what was prepared: its XXH3 hash is {:016x}, the manifest says {:016x}",
            path, hash, expected),
        "prepare the data again, or copy the file again");
}

void check_number(const std::string& prefix, const char* key, std::int64_t said,
                  std::int64_t found) {
  if (said != found)
    throw Error(
        ErrorKind::kData,
        fmt::format("{}.json is wrong: it says {} = {}, but it is {}", prefix, key, said, found),
        "prepare the data again");
}

void check(const TokenReport& report, const std::string& prefix) {
  if (!report.manifest)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} has no manifest to be verified against", report.path),
                "only what `hgtrain data prepare` wrote has one");
  const Manifest& manifest = *report.manifest;
  check_hash(prefix + ".bin", manifest.bin_hash);
  check_hash(prefix + ".idx", manifest.idx_hash);
  check_prepared(manifest, prefix);
  const std::string tokenizer = prefix + ".tokenizer";
  check_number(prefix, "vocab_size", manifest.vocab_size, Tokenizer::open(tokenizer)->vocab_size());
  check_number(prefix, "tokens", manifest.tokens, report.tokens);
  check_number(prefix, "documents", manifest.documents, report.documents);
  check_number(prefix, "max_token", manifest.max_token, report.max_token);
}

}  // namespace

TokenReport inspect(const InspectOptions& options) {
  const TokenFile file = TokenFile::open(options.path, options.token_dtype);
  TokenReport report;
  report.path = file.path();
  report.format = file.format();
  report.type = file.type();
  report.tokens = file.num_tokens();
  report.documents = file.num_documents();
  const std::string prefix = megatron_prefix(options.path);
  report.manifest = read_manifest(options.path);
  const bool known = report.manifest && !options.verify;
  report.max_token = known ? report.manifest->max_token : largest_id(file);
  if (options.verify) check(report, prefix);
  report.first.resize(
      static_cast<std::size_t>(std::clamp<std::int64_t>(options.show, 0, file.num_tokens())));
  file.read(0, report.first, kAnyId);

  std::string tokenizer = options.tokenizer;
  if (tokenizer.empty() && report.manifest) tokenizer = prefix + ".tokenizer";
  if (!tokenizer.empty()) report.first_text = Tokenizer::open(tokenizer)->decode(report.first);
  return report;
}

}  // namespace hgt
