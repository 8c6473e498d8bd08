#include "word_cache.h"

namespace hgt {

namespace {
constexpr std::size_t kMaxWords = std::size_t{1} << 16;
constexpr std::size_t kMaxWordBytes = 64;
}  // namespace

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  const auto found = ranges_.find(word);
  if (found == ranges_.end()) return std::nullopt;
  return std::span(ids_).subspan(found->second.begin, found->second.count);
}

void WordCache::insert(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.size() > kMaxWordBytes) return;
  if (ranges_.size() == kMaxWords) {
    ranges_.clear();
    ids_.clear();
  }
  ranges_.emplace(
      word, Range{static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint32_t>(ids.size())});
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

std::unique_ptr<WordCache> WordCachePool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<WordCache>();
  auto cache = std::move(free_.back());
  free_.pop_back();
  return cache;
}

void WordCachePool::give_back(std::unique_ptr<WordCache> cache) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(cache));
}

}  // namespace hgt
