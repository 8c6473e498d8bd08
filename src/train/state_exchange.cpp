#include "state_exchange.h"

#include <algorithm>
#include <utility>

namespace hgt {

StateExchange::StateExchange(const ParameterTable& table, const RankPlan& plan, Communicator& group,
                             std::vector<FlatTensor> buffers)
    : plan_(plan), group_(group) {
  std::vector<std::int64_t> unread(
      static_cast<std::size_t>((plan.elements() + kElements - 1) / kElements));
  for (const Parameter& parameter : table.parameters)
    for_each_chunk(parameter,
                   [&](std::size_t chunk, std::int64_t elements) { unread[chunk] += elements; });
  if (unread.empty()) return;  // a pipeline stage without parameters
  for (FlatTensor& buffer : buffers) buffers_.push_back({std::move(buffer), unread});
}

/// Calls visit(chunk, how many elements of it are in the parameter and owned by this rank).
template <class Visit>
void StateExchange::for_each_chunk(const Parameter& parameter, const Visit& visit) const {
  for (const Slice& slice : plan_.slices()) {
    const Range shared{std::max(slice.elements.begin, parameter.offset),
                       std::min(slice.elements.end, parameter.offset + parameter.numel)};
    if (shared.size() <= 0) continue;
    const std::int64_t end = slice.part(shared).local + shared.size();
    for (std::int64_t at = end - shared.size(); at < end;) {
      const std::int64_t chunk = at / kElements, next = std::min((chunk + 1) * kElements, end);
      visit(static_cast<std::size_t>(chunk), next - at);
      at = next;
    }
  }
}

void StateExchange::read(const Tensor& values, const Parameter& parameter) {
  for (auto& [buffer, unread] : buffers_)
    if (buffer.values.raw() == values.raw())
      for_each_chunk(parameter, [&unread](std::size_t chunk, std::int64_t elements) {
        unread[chunk] -= elements;
      });
  while (buffer_ < buffers_.size() && buffers_[buffer_].unread[chunk_] == 0) start_next();
}

void StateExchange::start_next() {
  const Tensor& values = buffers_[buffer_].buffer.values;
  const auto size = static_cast<std::int64_t>(size_of(values.dtype()));
  const Range chunk{static_cast<std::int64_t>(chunk_) * kElements,
                    std::min(static_cast<std::int64_t>(chunk_ + 1) * kElements, plan_.elements())};
  ticket_ = group_.start_all_gather(bytes_of(values.slice(0, chunk.begin, chunk.end)),
                                    counted_in_bytes(plan_.sharding.owners(chunk), size));
  if (++chunk_ == buffers_[buffer_].unread.size()) ++buffer_, chunk_ = 0;
}

void StateExchange::finish() {
  while (buffer_ < buffers_.size()) start_next();
  if (ticket_ != 0) group_.wait(ticket_);
}

}  // namespace hgt
