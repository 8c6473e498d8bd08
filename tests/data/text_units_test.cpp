#include "../../src/data/text_units.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/roots.h"
#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;

namespace {

/// `count` MiB of the letter x.
void write_letters(File& file, int count) {
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < count; ++i) file.write(piece);
}

std::unique_ptr<Tokenizer> words() {
  return Tokenizer::from_json(source_root() + "/tests/fixtures/tokenizers/gpt2.json");
}

}  // namespace

TEST_CASE("a long document comes in parts, of which the first starts it and the last ends it") {
  const TemporaryFolder folder;
  {
    File file = File::open(folder / "f.txt", O_WRONLY | O_CREAT);
    write_letters(file, 3);
  }
  const std::vector<SourceFile> files = {{folder / "f.txt", 3 << 20, false, false}};
  const auto tokenizer = Tokenizer::byte();
  TextUnits units(files, *tokenizer);
  std::vector<TextPart> parts;
  for (TextUnit unit = units.next(); !unit.empty(); unit = units.next())
    parts.insert(parts.end(), unit.begin(), unit.end());
  REQUIRE(parts.size() > 1);
  for (const TextPart& part : parts) {
    CHECK(part.starts_document == (&part == &parts.front()));
    CHECK(part.ends_document == (&part == &parts.back()));
  }
  CHECK(units.text_bytes() == 3 << 20);
}

TEST_CASE("a document that cannot be cut is refused if it would take the memory") {
  const TemporaryFolder folder;
  {
    File file = File::open(folder / "f.txt", O_WRONLY | O_CREAT);
    write_letters(file, 257);
  }
  const std::vector<SourceFile> files = {{folder / "f.txt", 257 << 20, false, false}};
  const auto tokenizer = words();
  TextUnits units(files, *tokenizer);
  CHECK_THROWS_WITH(units.next(), Contains("f.txt has more than 256 MiB without a place"));
}

TEST_CASE("bytes that are not text are refused with every tokenizer, and skipped in a folder") {
  const TemporaryFolder folder;
  write_new_file(folder / "f", std::string("a\0b", 3));
  const std::vector<SourceFile> named = {{folder / "f", 3, false, false}};
  const std::vector<SourceFile> found = {{folder / "f", 3, false, true}};
  const auto bytes = Tokenizer::byte(), bpe = words();
  for (const Tokenizer* tokenizer : {bytes.get(), bpe.get()})
    CHECK_THROWS_WITH(TextUnits(named, *tokenizer).next(), Contains("f is binary or UTF-16"));
  TextUnits passed_over(found, *bytes);
  CHECK(passed_over.next().empty());
  CHECK(passed_over.binary_files().size() == 1);
}

TEST_CASE("lines after one that was too long are counted, too") {
  const TemporaryFolder folder;
  {
    File file = File::open(folder / "f.jsonl", O_WRONLY | O_CREAT);
    file.write("1\n");
    write_letters(file, 70);
    file.write("\n3");
  }
  const std::vector<SourceFile> files = {{folder / "f.jsonl", 70 << 20, true, false}};
  const auto tokenizer = Tokenizer::byte();
  TextUnits units(files, *tokenizer, true);
  std::string text;
  std::int64_t last_line = 0;
  int taken = 0;
  for (TextUnit unit = units.next(); !unit.empty(); unit = units.next(), ++taken)
    for (const TextPart& part : unit) {
      text += part.text;
      last_line = part.first_line;
    }
  CHECK(text == "1\n3");
  CHECK(last_line == 3);
  CHECK(taken > 5);  // one a MiB behind the 64: the caller can stop in the line
  CHECK(units.bad_lines().count == 1);
  CHECK_THAT(units.bad_lines().first, Catch::EndsWith("f.jsonl:2: longer than 64 MiB"));
}
