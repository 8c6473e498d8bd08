#include "../../src/data/content_hash.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/xxh3.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a whole file is hashed piece by piece") {
  const TemporaryFolder folder;
  const std::string text(3'000'001, 'x');
  write_new_file(folder / "f", text);
  CHECK(hash_file(folder / "f") == xxh3(text));
}

TEST_CASE("a sampled hash notices any change of a small file, and of a large one size and ends") {
  const TemporaryFolder folder;
  const auto hash = [&] { return sampled_hash(File::open(folder / "f", O_RDONLY)); };
  File file = File::open(folder / "f", O_RDWR | O_CREAT);
  CHECK(hash() == hash());  // of an empty file
  char next = 'a';
  const auto changes_by = [&](std::int64_t at) {
    const std::uint64_t before = hash();
    file.write_at(at, std::as_bytes(std::span(&++next, 1)));
    return hash() != before;
  };
  file.truncate(5'000'000);
  for (const std::int64_t at : {0, 2'345'678, 4'999'999}) CHECK(changes_by(at));
  constexpr std::int64_t kLarge = 100 << 20;  // a hole in the file, which takes no space
  file.truncate(kLarge);
  const std::uint64_t before = hash();
  file.truncate(kLarge + 1);
  CHECK(hash() != before);
  file.truncate(kLarge);
  CHECK(hash() == before);
  for (const std::int64_t at : {std::int64_t{0}, kLarge / 2, kLarge - 1}) CHECK(changes_by(at));
}
