#pragma once

#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The `decoder` of a tokenizer.json, split into what it does to a token and to the whole.
struct Decoder {
  /// The bytes a token stands for.
  std::function<std::string(const std::string& token)> bytes_of_token;
  std::string strip;            ///< taken off the start of the decoded text, up to ...
  std::size_t strip_count = 0;  ///< ... this many times
};

/// ByteLevel, or a Sequence of Replace, ByteFallback, Fuse and Strip. null means ByteLevel if
/// `byte_level`, otherwise tokens stay unchanged. Error(kData) names any other.
Decoder parse_decoder(const nlohmann::json& json, bool byte_level);

}  // namespace hgt
