#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex.h"

#include <array>
#include <pcre2.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

namespace {

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// A thread's memory for matching: space for one match, and a stack for the compiled code.
class MatchMemory {
 public:
  MatchMemory()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(std::size_t{1} << 15, std::size_t{1} << 23, nullptr)) {
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchMemory() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;

  pcre2_match_data* data() { return data_; }
  pcre2_match_context* context() { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

}  // namespace

Regex::Regex(const std::string& oniguruma_pattern) : oniguruma_pattern_(oniguruma_pattern) {
  const auto fail = [&](const std::string& why) {
    return Error(ErrorKind::kData, fmt::format("the pattern {} {}", oniguruma_pattern, why));
  };
  std::string pattern;
  try {
    pattern = pcre2_pattern(oniguruma_pattern);
  } catch (const Error& e) {
    throw fail(e.message());
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context.get()));
  if (!code_)
    throw fail(fmt::format("is not understood at byte {}{}: {}", at,
                           pattern == oniguruma_pattern ? "" : " of " + pattern,
                           message_of(error)));
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // if it fails, matching is slower
}

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

std::optional<Match> Regex::find(std::string_view text, std::size_t from) const {
  thread_local MatchMemory memory;
  const int result =
      pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, memory.data(), memory.context());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw Error(ErrorKind::kData,
                fmt::format("the tokenizer's split pattern {} fails on a text of {} bytes: {}",
                            oniguruma_pattern_, text.size(), message_of(result)),
                "cut the text into shorter lines, or use a tokenizer with a simpler pattern");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory.data());
  return Match{bounds[0], bounds[1]};
}

}  // namespace hgt
