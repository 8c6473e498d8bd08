#include "batch.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "hgtrain/base/checked.h"

namespace hgt {
namespace {

/// The largest divisor of `number` that is at most `limit`; both are positive.
std::int64_t largest_divisor(std::int64_t number, std::int64_t limit) {
  std::int64_t divisor = std::min(limit, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

/// The nearest batches that fit if only what is open changes with them: "6 or 12".
std::string nearest_batches(const BatchConfig& asked, std::int64_t workers) {
  const auto product = [](std::int64_t x, std::int64_t y) {
    return checked_mul(x, y, "the batch size", ErrorKind::kConfig);
  };
  const std::int64_t unit =
      product(std::max<std::int64_t>(1, asked.micro_batch_size),
              product(std::max<std::int64_t>(1, asked.gradient_accumulation_steps), workers));
  const std::int64_t below = asked.train_batch_size / unit;
  const std::int64_t above = product(below + 1, unit);
  return below > 0 ? fmt::format("{} or {}", below * unit, above) : fmt::format("{}", above);
}

/// The valid triples that are nearest to the given one.
std::string nearest_triples(const BatchConfig& asked, std::int64_t workers) {
  const std::int64_t micro = std::max<std::int64_t>(1, asked.micro_batch_size);
  const std::int64_t steps = std::max<std::int64_t>(1, asked.gradient_accumulation_steps);
  std::set<std::int64_t> totals = {micro * steps * workers};  // both kept
  const std::int64_t unit = micro * workers;                  // the micro-batch kept
  totals.insert(std::max(unit, asked.train_batch_size / unit * unit));
  totals.insert((asked.train_batch_size + unit - 1) / unit * unit);
  std::string text;
  for (const std::int64_t total : totals)
    if (total > 0)
      text += fmt::format("{}{} = {} * {} * {}", text.empty() ? "" : ", or ", total, micro,
                          total / unit, workers);
  if (asked.train_batch_size > 0 && asked.train_batch_size % workers == 0) {  // the batch kept
    const std::int64_t fitting = largest_divisor(asked.train_batch_size / workers, micro);
    if (!totals.contains(asked.train_batch_size))
      text += fmt::format(", or {} = {} * {} * {}", asked.train_batch_size, fitting,
                          asked.train_batch_size / workers / fitting, workers);
  }
  return text;
}

/// The most workers, fewer than these, that can share the batch as it is asked for; 0 if none can.
std::int64_t fewer_workers(const BatchConfig& asked, std::int64_t workers) {
  const std::int64_t unit =
      checked_mul(std::max<std::int64_t>(1, asked.micro_batch_size),
                  std::max<std::int64_t>(1, asked.gradient_accumulation_steps), "the batch size",
                  ErrorKind::kConfig);
  if (asked.train_batch_size == 0 || asked.train_batch_size % unit != 0) return 0;
  const std::int64_t shares = asked.train_batch_size / unit;
  const bool no_more = asked.micro_batch_size > 0 && asked.gradient_accumulation_steps > 0;
  for (std::int64_t fewer = std::min(workers - 1, shares); fewer >= 1; --fewer)
    if (no_more ? fewer == shares : shares % fewer == 0) return fewer;
  return 0;
}

/// What to change if the micro-batch or the accumulation is left open: "set train_batch_size to 6
/// or 12, or train_micro_batch_size_per_gpu to 2".
std::string ways_to_share(const BatchConfig& asked, std::int64_t workers) {
  std::string ways = "set train_batch_size to " + nearest_batches(asked, workers);
  const bool has_micro = asked.micro_batch_size > 0;
  const std::int64_t size = has_micro ? asked.micro_batch_size : asked.gradient_accumulation_steps;
  if (size > 0 && asked.train_batch_size % workers == 0)
    ways +=
        fmt::format(", or {} to {}",
                    has_micro ? "train_micro_batch_size_per_gpu" : "gradient_accumulation_steps",
                    largest_divisor(asked.train_batch_size / workers, size));
  return ways;
}

/// The message for a batch size that the `kind` workers cannot share, if the micro-batch or
/// accumulation is left open.
std::string cannot_share(const BatchConfig& asked, std::int64_t workers, const char* kind) {
  std::string how;
  if (asked.micro_batch_size > 0)
    how = fmt::format(" in micro-batches of {}", asked.micro_batch_size);
  else if (asked.gradient_accumulation_steps > 1)
    how = fmt::format(" in {} micro-batches each", asked.gradient_accumulation_steps);
  return fmt::format("a batch of {} cannot be shared by {} {}worker{}{}", asked.train_batch_size,
                     workers, kind, workers == 1 ? "" : "s", how);
}

}  // namespace

BatchConfig complete_batch(BatchConfig b, std::int64_t workers) {
  std::int64_t &total = b.train_batch_size, &micro = b.micro_batch_size,
               &steps = b.gradient_accumulation_steps;
  const auto product = [](std::int64_t x, std::int64_t y) {
    return checked_mul(x, y, "the batch size", ErrorKind::kConfig);
  };
  if (total > 0 && micro > 0 && steps > 0) return b;
  if (total > 0 && micro > 0) {
    steps = total / micro / workers;
  } else if (total > 0 && steps > 0) {
    micro = total / workers / steps;
  } else if (total > 0) {
    steps = 1;
    micro = total / workers;
  } else if (micro > 0) {
    steps = std::max<std::int64_t>(1, steps);
    total = product(product(micro, steps), workers);
  }
  return b;
}

std::optional<BatchProblem> check_batch(const BatchConfig& asked, std::int64_t workers,
                                        const std::string& derivation, bool knows_workers) {
  const BatchConfig b = complete_batch(asked, workers);
  const std::int64_t product =
      checked_mul(checked_mul(b.micro_batch_size, b.gradient_accumulation_steps, "the batch size",
                              ErrorKind::kConfig),
                  workers, "the batch size", ErrorKind::kConfig);
  if (product > 0 && product == b.train_batch_size) return std::nullopt;
  const std::int64_t fewer = derivation.empty() ? fewer_workers(asked, workers) : 0;
  const std::string or_fewer =
      fewer > 0 ? fmt::format(", or start {} worker{}", fewer, fewer == 1 ? "" : "s") : "";
  const std::string hint =
      "these batches fit, as micro-batch * accumulation * workers: " + nearest_triples(b, workers) +
      or_fewer;
  if (b.train_batch_size > 0 && b.micro_batch_size > b.train_batch_size)
    return BatchProblem{"train_micro_batch_size_per_gpu",
                        fmt::format("a micro-batch of {} exceeds the batch of {}",
                                    b.micro_batch_size, b.train_batch_size),
                        hint};
  const std::string because = derivation.empty() ? "" : ": " + derivation;
  if (asked.train_batch_size > 0 &&
      (asked.micro_batch_size == 0 || asked.gradient_accumulation_steps == 0))
    return BatchProblem{
        "train_batch_size",
        knows_workers
            ? cannot_share(asked, workers, derivation.empty() ? "" : "data-parallel ") + because
        : asked.micro_batch_size > 0
            ? fmt::format("a batch of {} is not a multiple of the micro-batch of {}",
                          asked.train_batch_size, asked.micro_batch_size)
            : fmt::format("a batch of {} cannot be divided into {} micro-batches",
                          asked.train_batch_size, asked.gradient_accumulation_steps),
        ways_to_share(asked, workers) + or_fewer};
  if (!knows_workers)
    return BatchProblem{
        "train_batch_size",
        fmt::format("train_batch_size = {} is not a multiple of "
                    "train_micro_batch_size_per_gpu * gradient_accumulation_steps "
                    "= {} * {} = {}",
                    b.train_batch_size, b.micro_batch_size, b.gradient_accumulation_steps, product),
        hint};
  return BatchProblem{
      "train_batch_size",
      fmt::format("train_batch_size = {} is not train_micro_batch_size_per_gpu * "
                  "gradient_accumulation_steps * data-parallel workers = {} * {} * {} = {}{}",
                  b.train_batch_size, b.micro_batch_size, b.gradient_accumulation_steps, workers,
                  product, because),
      hint};
}

}  // namespace hgt
