#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hgt {

struct TokenizerConfig {
  std::string type = "auto";  ///< auto (what the data's manifest says), byte, bpe
  std::string path;           ///< tokenizer.json or a folder with one
};

struct DataSource {
  std::string path;     ///< prefix of .bin/.idx, or one .bin file
  double weight = 0.0;  ///< share of the samples; if all are 0, files count by their sizes
};

struct DataConfig {
  std::vector<DataSource> train;
  std::vector<DataSource> valid;  ///< empty: split off `train` by `valid_fraction`
  double valid_fraction = 0.0;
  bool shuffle = true;
  std::int64_t seed = 1234;
  /// Attention does not cross the documents of a sample, and each starts at position 0.
  bool separate_documents = false;
  std::optional<std::int64_t> end_of_text;  ///< id that each document begins with
  std::string token_dtype = "auto";  ///< for files without a header: auto (uint16), uint16, uint32
};

}  // namespace hgt
