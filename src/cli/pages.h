#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

// Files of the source tree that are part of the program (embed_pages.py).

/// configs/NAME.json, "" if there is no such preset.
std::string_view preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace hgt
