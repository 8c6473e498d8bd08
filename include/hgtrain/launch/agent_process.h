#pragma once

namespace hgt {

/// `hgtrain agent`: runs the ranks of this host for a launcher elsewhere, which has started this
/// process and speaks to it over stdin and stdout. Returns the exit status once the launcher is
/// gone; what was started is killed then.
int run_agent();

}  // namespace hgt
