#pragma once

namespace hgt {

/// `hgtrain agent`: runs the ranks of this host for a launcher elsewhere, which has started this
/// process and speaks to it over stdin and stdout. When the launcher is gone, it kills what it has
/// started and returns the exit status.
int run_agent();

}  // namespace hgt
