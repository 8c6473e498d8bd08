#include "hgtrain/data/token_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/utf8.h"
#include "hgtrain/base/xxh3.h"

#include "content_hash.h"
#include "damaged_file.h"
#include "megatron_index.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

constexpr std::int32_t kLlmCMagic16 = 20240520;
constexpr std::int32_t kLlmCMagic32 = 20240801;
constexpr std::int32_t kLlmCEvalMagic = 20240522;  // multiple choice questions, not a token stream
constexpr std::int64_t kLlmCHeaderBytes = 1024;

TokenType bare_token_type(const std::string& name) {
  if (name == "auto" || name == "uint16") return TokenType::kUint16;
  if (name == "uint32") return TokenType::kUint32;
  throw Error(ErrorKind::kConfig, fmt::format("data.token_dtype = \"{}\" is not known", name),
              "use auto, uint16 or uint32");
}

bool is_file(const std::string& path) {
  return path_exists(path) && !is_folder(path);
}

/// The type of an llm.c file's tokens from its header, already checked against the file's size.
TokenType check_llm_c(const File& file, std::span<const std::int32_t, 3> header,
                      std::int64_t bytes) {
  const auto [magic, version, count] = std::array{header[0], header[1], header[2]};
  const int known = magic == kLlmCMagic16 ? 1 : 7;
  if (version != known)
    throw damaged_file(file, 4, fmt::format("version {}, but only {} is known", version, known));
  const auto type = magic == kLlmCMagic16 ? TokenType::kUint16 : TokenType::kUint32;
  const std::int64_t expected = kLlmCHeaderBytes + count * static_cast<std::int64_t>(size_of(type));
  if (count < 0 || bytes != expected)
    throw damaged_file(
        file, 8,
        fmt::format("the header counts {} {} tokens, {} bytes in all; the file has {}", count,
                    name_of(type), expected, bytes));
  return type;
}

/// Throws if the file looks like text, which would otherwise be read as tokens of two characters
/// each.
void refuse_text(const File& file, std::int64_t bytes) {
  constexpr std::int64_t kLooked = 64 << 10;
  std::string start(static_cast<std::size_t>(std::min(bytes, kLooked)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  const auto controls = std::count_if(start.begin(), start.end(), [](unsigned char c) {
    return c < ' ' && c != '\t' && c != '\r' && c != '\n';
  });
  const bool has_nul = start.find('\0') != std::string::npos;
  const bool is_binary = has_nul || controls > std::ssize(start) / 100;
  const std::size_t cut_character = bytes > kLooked ? 3 : 0;
  if (start.empty() || is_binary || valid_utf8_prefix(start) + cut_character < start.size()) return;
  throw Error(ErrorKind::kData, file.path() + " looks like text, not tokens",
              fmt::format("hgtrain data prepare --input {} --out PREFIX", shell_word(file.path())));
}

}  // namespace

std::string_view name_of(TokenFile::Format format) {
  constexpr std::string_view kNames[] = {"Megatron", "llm.c", "bare"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string megatron_prefix(const std::string& path) {
  const fs::path p(path);
  const bool has_extension = p.extension() == ".bin" || p.extension() == ".idx";
  std::string stem = has_extension ? path.substr(0, path.size() - 4) : path;
  if (has_extension && is_file(stem + ".idx")) return stem;
  return is_file(path + ".idx") ? path : "";
}

namespace {
std::string without_json(const std::string& path) {
  return path.substr(0, path.rfind(".json"));
}

/// The folder that relative paths begin at.
std::string folder_here() {
  std::error_code gone;
  return fs::current_path(gone).string();
}
}  // namespace

TokenFile TokenFile::open(const std::string& path, const std::string& bare_type) {
  const TokenType type = bare_token_type(bare_type);
  if (const std::string prefix = megatron_prefix(path); !prefix.empty())
    return open_megatron(prefix);
  if (path.ends_with(".json") && !megatron_prefix(without_json(path)).empty())
    throw Error(ErrorKind::kConfig, path + " is the manifest of prepared data, not its tokens",
                "use " + shell_word(without_json(path)));
  if (is_file(path)) return open_single(path, type);
  if (is_file(path + ".bin"))
    throw Error(
        ErrorKind::kConfig, fmt::format("{0}.bin is there, but {0}.idx is missing", path),
        fmt::format("if it is a file of llm.c or nanoGPT, use {}", shell_word(path + ".bin")));
  if (is_folder(path))
    throw Error(ErrorKind::kConfig, path + " is a folder, not a token file",
                fmt::format("if it holds text: hgtrain data prepare --input {} --out PREFIX",
                            shell_word(path)));
  const bool is_relative = fs::path(path).is_relative();
  throw Error(ErrorKind::kConfig,
              fmt::format("there is no token file {0}: neither {0}.idx nor {0}{1}", path,
                          is_relative ? fmt::format(" (in {})", folder_here()) : ""),
              "make one from text: hgtrain data prepare --input PATH --out " + shell_word(path));
}

TokenFile TokenFile::open_megatron(const std::string& prefix) {
  if (!path_exists(prefix + ".bin"))
    throw Error(ErrorKind::kConfig, fmt::format("{0}.idx is there, but {0}.bin is missing", prefix),
                "copy it from where the data were prepared, or prepare them again");
  const MegatronIndex index = read_megatron_index(prefix + ".idx");
  TokenFile tokens(File::open(prefix + ".bin", O_RDONLY), Format::kMegatron, index.type, 0);
  const std::int64_t bytes = tokens.file_.size();
  if (const std::int64_t expected = tokens.byte_offset(index.num_tokens); bytes != expected)
    throw damaged_file(tokens.file_, std::min(bytes, expected),
                       fmt::format("{} bytes, but {}.idx counts {} {} tokens, {} bytes", bytes,
                                   prefix, index.num_tokens, name_of(index.type), expected));
  tokens.num_documents_ = index.num_documents;
  return tokens;
}

TokenFile TokenFile::open_single(const std::string& path, TokenType bare_type) {
  File file = File::open(path, O_RDONLY);
  const std::int64_t bytes = file.size();
  std::array<std::int32_t, 3> header{};
  if (bytes >= 12) file.read_at(0, std::as_writable_bytes(std::span(header)));
  if (header[0] == kLlmCEvalMagic)
    throw Error(ErrorKind::kData, path + " is an llm.c evaluation file, not a stream of tokens");
  if (header[0] == kLlmCMagic16 || header[0] == kLlmCMagic32) {
    const TokenType type = check_llm_c(file, header, bytes);
    return TokenFile(std::move(file), Format::kLlmC, type, kLlmCHeaderBytes);
  }
  refuse_text(file, bytes);
  if (bytes % static_cast<std::int64_t>(size_of(bare_type)) != 0)
    throw damaged_file(file, bytes,
                       fmt::format("it ends within a token of type {}", name_of(bare_type)),
                       "say what it holds with data.token_dtype (uint16, uint32)");
  return TokenFile(std::move(file), Format::kBare, bare_type, 0);
}

TokenFile::TokenFile(File file, Format format, TokenType type, std::int64_t start)
    : file_(std::move(file)),
      format_(format),
      type_(type),
      start_(start),
      num_tokens_((file_.size() - start) / static_cast<std::int64_t>(size_of(type))) {}

std::int64_t TokenFile::byte_offset(std::int64_t token) const {
  return start_ + token * static_cast<std::int64_t>(size_of(type_));
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens, std::int64_t limit) const {
  std::vector<std::byte> bytes(tokens.size() * size_of(type_));
  file_.read_at(byte_offset(first), bytes);
  const std::size_t good = convert_tokens(type_, bytes, tokens, limit);
  if (good == tokens.size()) return;
  const std::int64_t token = first + static_cast<std::int64_t>(good);
  throw Error(ErrorKind::kData,
              fmt::format("{}: token {} at byte {} is not an id below vocab_size = {}", path(),
                          token, byte_offset(token), limit),
              "the data was made with another tokenizer, data.token_dtype is wrong, or the file is "
              "damaged");
}

std::uint64_t TokenFile::fingerprint() const {
  const std::uint64_t content = sampled_hash(file_);
  return xxh3(std::as_bytes(std::span(&content, 1)), static_cast<std::uint64_t>(type_));
}

std::uint64_t TokenFile::whole_hash(const std::stop_token& stop) const {
  return hash_of_bytes(file_, byte_offset(num_tokens_), stop);
}

std::uint64_t TokenFile::old_fingerprint() const {
  constexpr std::int64_t kEndBytes = 1 << 16;
  const std::int64_t bytes = file_.size();
  std::vector<std::byte> ends(static_cast<std::size_t>(std::min(bytes, kEndBytes)));
  file_.read_at(0, ends);
  const std::uint64_t head = xxh3(ends, static_cast<std::uint64_t>(bytes));
  file_.read_at(bytes - std::ssize(ends), ends);
  return xxh3(ends, head);
}

}  // namespace hgt
