#include "bad_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/error_texts.h"
#include "hgtrain/comm/together.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

/// The values as floats, copied from the stream's device.
std::vector<float> floats_of(const Tensor& values, Stream stream) {
  const auto count = static_cast<std::size_t>(values.numel());
  std::vector<std::byte> copy(count * size_of(values.dtype()));
  stream.copy(copy.data(), values.raw(), copy.size());
  stream.synchronize();
  std::vector<float> out(count);
  visit_element(values.dtype(), [&]<class T>(T) {
    const T* const from = reinterpret_cast<const T*>(copy.data());
    std::copy(from, from + count, out.begin());
  });
  return out;
}

/// An element that is not finite, and where it is.
struct BadElement {
  std::int64_t at = -1;     ///< in the flat layout; -1: there is none
  std::int64_t number = 0;  ///< in the whole parameter
  double value = 0;
  int rank = 0;
};

/// The parameter with an element of the flat layout.
const Parameter& parameter_at(const ParameterTable& table, std::int64_t at) {
  return *std::ranges::find_if(table.parameters,
                               [&](const Parameter& p) { return at < p.offset + p.numel; });
}

/// The number of an element of the flat layout in its whole parameter.
std::int64_t number_of(const Trainer::Parts& parts, std::int64_t at) {
  const Parameter& p = parameter_at(parts.table, at);
  std::int64_t number = at - p.offset;
  p.placement(tensor_rank(parts.plan))
      .for_each_run({number, number + 1}, [&](const Placement::Run& run) { number = run.whole; });
  return number;
}

/// The first bad element in this rank's slices.
BadElement first_here(const Trainer::Parts& parts, const FlatTensor& flat,
                      std::span<const Slice> slices, Stream stream) {
  for (const Slice& slice : slices) {
    const std::vector<float> values = floats_of(flat.at(slice), stream);
    const auto found =
        std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (found == values.end()) continue;
    const std::int64_t at = slice.elements.begin + (found - values.begin());
    return {at, number_of(parts, at), static_cast<double>(*found)};
  }
  return {};
}

/// The first bad element of all ranks, each of which passes its own. If several ranks have the same
/// one, it is the first rank's.
BadElement first_of_ranks(const BadElement& mine, Communicator& comm) {
  const std::vector<double> all = values_of_ranks(
      comm, std::array{static_cast<double>(mine.at), static_cast<double>(mine.number), mine.value});
  BadElement first;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const auto at = static_cast<std::int64_t>(all[i]);
    if (at >= 0 && (first.at < 0 || at < first.at))
      first = {at, static_cast<std::int64_t>(all[i + 1]), all[i + 2], static_cast<int>(i / 3)};
  }
  return first;
}

}  // namespace

void stop_at_bad_tensor(const Trainer::Parts& parts, std::span<const Slice> updated, Stream updates,
                        const StepResult& result) {
  Communicator& world = *parts.groups.world;
  const auto first_in = [&](const FlatTensor& flat) {
    return first_of_ranks(first_here(parts, flat, updated, updates), world);
  };
  const char* what = "weight";
  BadElement bad = first_in(parts.buffers.parameter_values());
  if (bad.at < 0) {
    what = "gradient";
    bad = first_in(parts.buffers.gradient_values());
  }
  // The launcher blames the rank from which it hears first, and stops the others' collectives. So
  // no rank throws before all know the error; the others then wait until the rank to blame is gone.
  try {
    world.barrier();
    if (bad.at >= 0 && bad.rank != world.rank()) world.barrier();
  } catch (const Error&) {  // the rank to blame is gone
  }
  const std::string where =
      bad.at < 0
          ? "every weight and gradient is finite"
          : fmt::format("the first tensor that is not finite is the {} of {}: element {} is {}",
                        what, parameter_at(parts.table, bad.at).name, bad.number,
                        human_number(bad.value, 4));
  throw Error(ErrorKind::kCheck,
              fmt::format("step {}: loss is {}, gradient norm is {}; {}", result.step,
                          human_number(result.loss, 4), human_number(result.grad_norm, 4), where),
              fmt::format("{}, or lengthen the warmup; this step changed no weight", kLowerRate));
}

}  // namespace hgt
