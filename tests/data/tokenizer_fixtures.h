#pragma once

#include <string>

#include "support/roots.h"

/// The folder of the tokenizers that tests/golden/make_tokenizers.py wrote.
inline const std::string kFixtures = source_root() + "/tests/fixtures/tokenizers/";
