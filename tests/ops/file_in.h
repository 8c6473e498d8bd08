#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

namespace hgt {

/// The path of the only file in the folder.
inline std::string file_in(const TemporaryFolder& folder) {
  const auto names = list_folder(folder.path());
  REQUIRE(names.size() == 1);
  return folder / names[0];
}

}  // namespace hgt
