#pragma once

#include <array>
#include <string>

#include "hgtrain/launch/rank_set.h"

namespace hgt {

/// Whether torchrun's --tee or --redirects asks for files: "3", or "0:3,1:1" for local ranks.
bool asks_for_files(const char* flag, const std::string& streams);

/// The local ranks whose stdout, and those whose stderr, torchrun prints: those of `filter` ("0,2",
/// "" = all), without streams that go to files only. Of a rank's streams, 1 is stdout, 2 stderr,
/// and 3 both. Error(kConfig) names what is malformed.
std::array<RankSet, 2> printed_ranks(const std::string& filter, const std::string& tee,
                                     const std::string& redirects);

}  // namespace hgt
