#include "hgtrain/data/tokenizer.h"

#include <filesystem>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "byte_tokenizer.h"

namespace hgt {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> Tokenizer::from_json(const std::string& path) {
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: this version knows the byte tokenizer only", path));
}

std::unique_ptr<Tokenizer> Tokenizer::from_folder(const std::string& folder) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
  const std::string path = folder + "/tokenizer.json";
  if (!fs::exists(path))
    throw Error(ErrorKind::kData, fmt::format("{} has no tokenizer.json", folder),
                "copy the model's tokenizer.json there");
  if (read_file(path, kMaxBytes) == byte_tokenizer_json()) return byte();
  return from_json(path);
}

std::unique_ptr<Tokenizer> Tokenizer::open(const std::string& name) {
  if (name == "byte") return byte();
  if (fs::is_directory(name)) return from_folder(name);
  if (fs::exists(name)) return from_json(name);
  throw Error(ErrorKind::kConfig, fmt::format("there is no tokenizer {}", name),
              "use byte, a folder with a tokenizer.json, or the path of one");
}

}  // namespace hgt
