#include "hgtrain/comm/together.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/wire/messages.h"

namespace hgt {
namespace {

constexpr char kResult = 'r', kError = 'e';

/// What a rank sends to the others: an empty text, if its action returned nothing.
std::string outcome_of(const std::function<std::string()>& action, int rank) {
  try {
    const std::string result = action();
    return result.empty() ? "" : kResult + result;
  } catch (const std::exception& e) {
    Error error = error_from(e);
    if (rank > 0) error.in(fmt::format("rank {} on {}", rank, host_name()));
    return kError +
           failed_body(error).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace

std::vector<std::string> run_together(Communicator& comm,
                                      const std::function<std::string()>& action) {
  if (comm.size() == 1) return {action()};
  std::vector<std::string> all(static_cast<std::size_t>(comm.size()));
  std::string& mine = all[static_cast<std::size_t>(comm.rank())];
  mine = outcome_of(action, comm.rank());
  const std::vector<double> sizes =
      values_of_ranks(comm, std::array{static_cast<double>(mine.size())});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].resize(static_cast<std::size_t>(sizes[rank]));
    if (!all[rank].empty())
      comm.broadcast(std::as_writable_bytes(std::span(all[rank])), static_cast<int>(rank));
  }
  for (std::string& text : all) {
    if (text.starts_with(kError)) throw Error(error_in(parse_json<nlohmann::json>(text.substr(1))));
    if (!text.empty()) text.erase(0, 1);
  }
  return all;
}

std::vector<double> values_of_ranks(Communicator& comm, std::span<const double> mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(comm.size()));
  std::ranges::copy(mine, all.begin() + comm.rank() * std::ssize(mine));
  comm.all_reduce_sum(std::span(all));
  return all;
}

}  // namespace hgt
