#include "layout_neighbours.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/config/layout_rules.h"

namespace hgt {
namespace {

/// A setting to change. `distance` is how far it is from what was asked for; 0 changes nothing.
struct Change {
  std::string setting;
  double distance = 0;
  std::function<void(Config&)> apply = [](Config&) {};
};
/// A neighbour makes one of these changes; the first one changes nothing.
using Choices = std::vector<Change>;

/// Every change counts 1; so does a factor of 2.
double distance(std::int64_t asked, std::int64_t size) {
  return 1 + std::abs(std::log2(static_cast<double>(size) / static_cast<double>(asked))) +
         (size > asked ? 0.01 : 0);
}

template <class Member>
Change change(const char* key, Member member, std::int64_t asked, std::int64_t size) {
  return {fmt::format("parallelism.{} = {}", key, size), distance(asked, size),
          [member, size](Config& config) { config.parallelism.*member = size; }};
}

/// The part of the config on which layouts depend, which is quick to copy.
Config layout_part(const Config& config) {
  Config out;
  out.model.model_type = config.model.model_type;
  for (const auto size : {&ModelConfig::num_attention_heads, &ModelConfig::num_key_value_heads,
                          &ModelConfig::intermediate_size, &ModelConfig::num_hidden_layers,
                          &ModelConfig::max_position_embeddings})
    out.model.*size = config.model.*size;
  out.training.seq_length = config.training.seq_length;
  out.parallelism = config.parallelism;
  out.zero.stage = config.zero.stage;
  return out;
}

/// The nearest sizes of an axis that fit alone, and 1.
Choices sizes(const char* key, std::int64_t ParallelismConfig::*member, const Config& config,
              std::int64_t world_size) {
  constexpr std::int64_t kMaxSize = 1024;
  constexpr std::size_t kEach = 3;
  const std::int64_t asked = config.parallelism.*member;
  Choices out(1);
  const auto fits = [&](std::int64_t size) {
    if (world_size > 0 && world_size % size != 0) return false;
    Config other = config;
    other.parallelism = {};
    other.parallelism.*member = size;
    return layout_problems(other).empty();
  };
  std::int64_t smaller = asked - 1;
  for (; smaller >= 1 && out.size() <= kEach; --smaller)
    if (fits(smaller)) out.push_back(change(key, member, asked, smaller));
  if (smaller >= 1) out.push_back(change(key, member, asked, 1));
  const std::size_t below = out.size();
  for (std::int64_t size = asked + 1; size <= kMaxSize && out.size() < below + kEach; ++size)
    if (fits(size)) out.push_back(change(key, member, asked, size));
  return out;
}

Choices schedules(const ParallelismConfig& asked) {
  Choices out(1);
  const std::int64_t parts = asked.virtual_pipeline_stages;
  const auto add = [&](const char* schedule, std::int64_t virtual_stages) {
    std::vector<std::string> settings;
    if (asked.pipeline_schedule != schedule)
      settings.push_back(fmt::format("parallelism.pipeline_schedule = \"{}\"", schedule));
    if (parts != virtual_stages)
      settings.push_back(fmt::format("parallelism.virtual_pipeline_stages = {}", virtual_stages));
    out.push_back({fmt::format("{}", fmt::join(settings, " and ")),
                   static_cast<double>(settings.size()) - 1 + distance(parts, virtual_stages),
                   [schedule, virtual_stages](Config& config) {
                     config.parallelism.pipeline_schedule = schedule;
                     config.parallelism.virtual_pipeline_stages = virtual_stages;
                   }});
  };
  if (asked.pipeline_schedule == "interleaved" || parts > 1) {
    for (const std::int64_t fewer : {parts - 1, parts / 2, std::int64_t{2}})
      if (fewer >= 2 && fewer != parts) add("interleaved", fewer);
    if (asked.pipeline_schedule != "interleaved") add("interleaved", parts);
    add("1f1b", 1);
  }
  return out;
}

Choices layer_splits(const ParallelismConfig& asked) {
  Choices out(1);
  if (!asked.pipeline_layer_split.empty())
    out.push_back({"parallelism.pipeline_layer_split = \"balanced\"", 2,
                   [](Config& config) { config.parallelism.pipeline_layer_split.clear(); }});
  return out;
}

Choices zero_stages(const Config& asked) {
  Choices out(1);
  if (asked.zero.stage >= 2)
    out.push_back(
        {"zero_optimization.stage = 1", 1.5, [](Config& config) { config.zero.stage = 1; }});
  return out;
}

/// Lengths for the number of context ranks that was asked for, up to the model's longest.
Choices lengths(const Config& asked) {
  Choices out(1);
  const std::int64_t chunks = 2 * asked.parallelism.context_parallel_size;
  const std::int64_t length = asked.training.seq_length,
                     longest = asked.model.max_position_embeddings;
  if (chunks == 2 || length % chunks == 0) return out;
  const std::int64_t below = length / chunks * chunks;
  for (const std::int64_t other : {below, below + chunks})
    if (other > 0 && (longest == 0 || other <= longest))
      out.push_back({fmt::format("training.seq_length = {}", other), 0.2 + distance(length, other),
                     [other](Config& config) { config.training.seq_length = other; }});
  return out;
}

/// A combination of one change from each of the choices.
struct Neighbour {
  double distance = 0;
  std::vector<std::string> settings;

  /// Whether it sets all keys that `other` sets, and more.
  bool sets_more_than(const Neighbour& other) const {
    const auto key = [](const std::string& setting) {
      return setting.substr(0, setting.find(' '));
    };
    return settings.size() > other.settings.size() &&
           std::ranges::all_of(other.settings, [&](const std::string& setting) {
             return std::ranges::count(settings, key(setting), key) > 0;
           });
  }
};

class Search {
 public:
  Search(const Config& asked, std::int64_t world_size,
         const std::function<bool(std::int64_t)>& fits_batch)
      : world_size_(world_size), fits_batch_(fits_batch) {
    using P = ParallelismConfig;
    choices_ = {sizes("tensor_parallel_size", &P::tensor_parallel_size, asked, world_size),
                sizes("context_parallel_size", &P::context_parallel_size, asked, world_size),
                sizes("pipeline_parallel_size", &P::pipeline_parallel_size, asked, world_size),
                schedules(asked.parallelism),
                layer_splits(asked.parallelism),
                zero_stages(asked),
                lengths(asked)};
    visit(0, asked, {});
  }

  /// The nearest, without those that set more keys than a nearer one.
  std::vector<std::string> nearest() {
    constexpr std::size_t kMaxHints = 3;
    std::ranges::stable_sort(found_, {}, &Neighbour::distance);
    std::vector<Neighbour> chosen;
    std::vector<std::string> out;
    for (const Neighbour& neighbour : found_) {
      const bool sets_more = std::ranges::any_of(
          chosen, [&](const Neighbour& other) { return neighbour.sets_more_than(other); });
      if (sets_more || chosen.size() == kMaxHints) continue;
      chosen.push_back(neighbour);
      out.push_back(fmt::format("{}", fmt::join(neighbour.settings, " and ")));
    }
    return out;
  }

 private:
  void visit(std::size_t choice, const Config& config, const Neighbour& so_far) {
    if (choice == choices_.size()) return keep_if_sound(config, so_far);
    for (const Change& change : choices_[choice]) {
      Config other = config;
      change.apply(other);
      Neighbour next = so_far;
      next.distance += change.distance;
      if (!change.setting.empty()) next.settings.push_back(change.setting);
      visit(choice + 1, other, next);
    }
  }

  void keep_if_sound(const Config& config, Neighbour neighbour) {
    const ParallelismConfig& p = config.parallelism;
    const std::int64_t group =
        p.tensor_parallel_size * p.context_parallel_size * p.pipeline_parallel_size;
    if (!layout_problems(config).empty() || (world_size_ > 0 && world_size_ % group != 0)) return;
    const std::int64_t groups = world_size_ / group;
    if (world_size_ > 0 && !fits_batch_(groups)) return;
    if (world_size_ > 0 && p.data_parallel_size > 0 && p.data_parallel_size != groups) {
      neighbour.settings.push_back(fmt::format("parallelism.data_parallel_size = {}", groups));
      neighbour.distance += 0.5;
    }
    if (!neighbour.settings.empty()) found_.push_back(std::move(neighbour));
  }

  std::int64_t world_size_;
  const std::function<bool(std::int64_t)>& fits_batch_;
  std::vector<Choices> choices_;
  std::vector<Neighbour> found_;
};

}  // namespace

std::vector<std::string> neighbours_of(const Config& config, std::int64_t world_size,
                                       const std::function<bool(std::int64_t)>& fits_batch) {
  return Search(layout_part(config), world_size, fits_batch).nearest();
}

}  // namespace hgt
