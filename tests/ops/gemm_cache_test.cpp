#include "gemm_cache.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "file_in.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {
const std::string kBasis = "a device, cuBLASLt 130000";
}  // namespace

TEST_CASE("choices survive their text") {
  const GemmChoices choices{{"2 x 3", "apart"}, {"4 x 5, bf16", "00ff"}};
  CHECK(choices_of(to_text(kBasis, choices), kBasis) == choices);
  CHECK(choices_of(to_text(kBasis, {}), kBasis).empty());
}

TEST_CASE("a text of another basis, of another version or with a wrong byte holds no choices") {
  const std::string text = to_text(kBasis, {{"2 x 3", "apart"}});
  CHECK(choices_of(text, "a device, cuBLASLt 130001").empty());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    CHECK(choices_of(damaged, kBasis).empty());
    CHECK(choices_of(text.substr(0, i), kBasis).empty());
  }
}

TEST_CASE("a choice of one process is valid for later and simultaneous ones") {
  const TemporaryFolder folder;
  GemmCache first(folder.path(), kBasis), second(folder.path(), kBasis);
  CHECK(!first.find("2 x 3"));
  CHECK(first.keep("2 x 3", "a") == "a");
  CHECK(second.keep("2 x 3", "b") == "a");
  CHECK(second.keep("4 x 5", "c") == "c");
  const GemmCache after(folder.path(), kBasis);
  CHECK(after.find("2 x 3") == "a");
  CHECK(after.find("4 x 5") == "c");
  CHECK(!GemmCache(folder.path(), "another device").find("2 x 3"));
}

TEST_CASE("choices that come from elsewhere take the place of the file's") {
  const TemporaryFolder folder;
  GemmCache cache(folder.path(), kBasis);
  cache.keep("2 x 3", "a");
  cache.use({{"2 x 3", "b"}, {"4 x 5", "c"}});
  CHECK(cache.find("2 x 3") == "b");
  CHECK(cache.keep("4 x 5", "d") == "c");
  CHECK(GemmCache(folder.path(), kBasis).find("2 x 3") == "a");  // until something is added to it
}

TEST_CASE("an unusable choice is replaced") {
  const TemporaryFolder folder;
  GemmCache first(folder.path(), kBasis);
  first.keep("2 x 3", "broken");
  CHECK(first.keep("2 x 3", "a", "another") == "broken");
  CHECK(first.keep("2 x 3", "a", "broken") == "a");
  CHECK(GemmCache(folder.path(), kBasis).find("2 x 3") == "a");
}

TEST_CASE("a damaged file counts as empty and is written anew") {
  const TemporaryFolder folder;
  GemmCache(folder.path(), kBasis).keep("2 x 3", "a");
  const std::string path = file_in(folder);
  for (const std::string& damage : {std::string("nothing of ours"), std::string(3 << 20, 'x')}) {
    write_file_atomically(path, damage);
    GemmCache cache(folder.path(), kBasis);
    CHECK(!cache.find("2 x 3"));
    cache.keep("2 x 3", "b");
    CHECK(GemmCache(folder.path(), kBasis).find("2 x 3") == "b");
  }
}

TEST_CASE("without a folder to write to, choices last as long as the process") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  for (const std::string& nowhere : {std::string(), folder / "file/hgtrain"}) {
    GemmCache cache(nowhere, kBasis);
    CHECK(cache.keep("2 x 3", "a") == "a");
    CHECK(cache.find("2 x 3") == "a");
    CHECK(cache.keep("2 x 3", "b") == "a");
  }
}

TEST_CASE("if many processes choose at once, all get the same choice and none is lost") {
  const TemporaryFolder folder;
  std::vector<std::string> kept(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kept.size(); ++i)
    threads.emplace_back([&, i] {
      GemmCache cache(folder.path(), kBasis);
      cache.keep("own " + std::to_string(i), "a");
      kept[i] = cache.keep("shared", std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  const GemmCache after(folder.path(), kBasis);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(after.find("own " + std::to_string(i)) == "a");
    CHECK(after.find("shared") == kept[i]);
  }
}

TEST_CASE("the cache lies where the environment says") {
  const char* const home = std::getenv("HOME");
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  const std::string old_home = home ? home : "", old_caches = caches ? caches : "";
  setenv("HOME", "/home/ada", 1);
  setenv("XDG_CACHE_HOME", "/tmp/caches", 1);
  CHECK(gemm_cache_folder() == "/tmp/caches/hgtrain");
  setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(gemm_cache_folder() == "/home/ada/.cache/hgtrain");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  CHECK(gemm_cache_folder().empty());
  if (home) setenv("HOME", old_home.c_str(), 1);
  if (caches) setenv("XDG_CACHE_HOME", old_caches.c_str(), 1);
}
