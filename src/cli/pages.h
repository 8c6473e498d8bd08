#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

// Files of the source tree that are part of the program (embed_pages.py).

/// configs/NAME.json, "" where there is none.
std::string_view preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace hgt
