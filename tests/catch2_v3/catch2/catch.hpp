#pragma once

// Catch2 3 (Debian 13, Ubuntu 24.04) under the header and names of Catch2 2, which the tests use.
#include <catch2/catch_all.hpp>

using Catch::Approx;

namespace Catch {

using Matchers::EndsWith;
using Matchers::StartsWith;
inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }

}  // namespace Catch
