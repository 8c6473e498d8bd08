#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpe.h"

namespace hgt {

/// Ids of words seen before: most words of a text are among a few thousand. Not thread-safe.
class WordCache {
 public:
  /// nullopt if the word is new. The ids are valid until the next insert().
  std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  /// Keeps short words; once the cache has grown large, empties it first.
  void insert(std::string_view word, std::span<const std::int32_t> ids);

 private:
  struct Range {
    std::uint32_t begin, count;
  };
  std::unordered_map<std::string, Range, StringHash, std::equal_to<>> ranges_;
  std::vector<std::int32_t> ids_;
};

/// Each thread that encodes borrows a cache of its own, so threads do not wait for each other.
class WordCachePool {
 public:
  /// Lends a cache until the lease is destroyed.
  class Lease {
   public:
    explicit Lease(WordCachePool& pool) : pool_(pool), cache_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(cache_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    WordCache& operator*() const { return *cache_; }

   private:
    WordCachePool& pool_;
    std::unique_ptr<WordCache> cache_;
  };

 private:
  std::unique_ptr<WordCache> take();
  void give_back(std::unique_ptr<WordCache> cache);
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> free_;
};

}  // namespace hgt
