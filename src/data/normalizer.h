#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The `normalizer` of a tokenizer.json: valid UTF-8 in, valid UTF-8 out. Empty: there is none.
using Normalizer = std::function<std::string(std::string_view)>;

/// NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence. Error(kData) names any other. Throws
/// nlohmann's exceptions if something is missing.
Normalizer parse_normalizer(const nlohmann::json& json);

/// Whether text can be cut before a line end without changing what comes out: nothing but NFC in
/// it.
bool normalizer_is_local(const nlohmann::json& json);

}  // namespace hgt
