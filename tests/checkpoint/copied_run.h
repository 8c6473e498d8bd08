#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/checkpoint/run_copy.h"

#include "support/put_file.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

namespace hgt {

/// A run that keeps two checkpoints, and the place for its copy.
struct CopiedRun {
  CopiedRun() {
    make_folders(run_dir);
    put_file(run_dir + "/config.json", "{}");
    put_file(run_dir + "/metrics.jsonl", "{\"step\": 10}");
  }
  void save(std::int64_t step) {
    const auto writer = run.writer(run_dir, 2);
    run.at(step);
    writer->save(run.state, run.flat());
    REQUIRE_FALSE(writer->wait());
  }
  std::vector<std::string> copied() const {
    std::vector<std::string> names = list_folder(copy_dir + "/checkpoints");
    std::ranges::sort(names);
    return names;
  }

  TemporaryFolder folder{TemporaryFolder::kMemory};
  std::string run_dir = folder / "run", copy_dir = folder / "far/copy";
  TinyRun run;
};

}  // namespace hgt
