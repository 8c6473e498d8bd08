#include "../../src/data/file_kind.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a name says what a file holds") {
  for (const char* text : {"a.txt", "README", "a.md.gz", "a.py", "a.csv.txt", ".bashrc", "a.html"})
    CHECK((kind_of_name(text).other.empty() && !kind_of_name(text).json_lines));
  for (const char* lines : {"a.jsonl", "a.NDJSON", "a.json", "a.jsonl.zst", "dir.csv/a.json.gz"})
    CHECK((kind_of_name(lines).other.empty() && kind_of_name(lines).json_lines));
  for (const char* other : {"a.csv", "a.TSV", "a.parquet", "a.csv.gz", "a.pdf", "a.tar.gz", "a.tgz",
                            "a.png", "a.bin", "a.safetensors"}) {
    CAPTURE(other);
    CHECK_FALSE(kind_of_name(other).other.empty());
    CHECK_FALSE(kind_of_name(other).hint.empty());
  }
  CHECK(kind_of_name("d/a.tsv").hint ==
        "write its rows as lines of JSON: python3 -c 'import pandas as p; p.read_csv(\"d/a.tsv\", "
        "sep=\"\\t\").to_json(\"d/a.jsonl\", orient=\"records\", lines=True)'");
}
