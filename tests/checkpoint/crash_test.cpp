// The order of writes and fsyncs: a series of saves is recorded, every prefix of the record is a
// moment at which the power may fail, and of what was not synced by then anything may be lost, torn
// or ahead of the rest (disk_model.h). In every such state each checkpoint is whole and the last
// acknowledged one is there.

#include <filesystem>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "disk_model.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

/// Saves of a run that keeps two checkpoints, is stopped, goes back to step 20 and saves 30 again.
/// Marks say which step is acknowledged from then on.
std::vector<FileOp> record_saves(const std::string& run_dir) {
  RecordingFileOps recording;
  const FileOpsOverride override_ops(recording);
  TinyRun run;
  const auto save_all = [&](std::initializer_list<std::int64_t> steps, std::int64_t keep) {
    const auto writer = run.writer(run_dir, keep, true);
    for (const std::int64_t step : steps) {
      run.at(step);
      writer->save(run.state, run.flat());
      REQUIRE_FALSE(writer->wait());
      recording.mark(step);
    }
  };
  save_all({10, 20, 30}, 2);
  recording.mark(20);  // the user resumes from 20: 30 is given up
  save_all({30}, 1);
  return recording.log();
}

void materialise(const DiskModel::Tree& tree, const std::string& folder) {
  for (const auto& [path, bytes] : tree) {
    const std::string full = folder + "/" + path;
    if (path.ends_with("/")) {
      std::filesystem::create_directory(full);
    } else {
      File::open(full, O_WRONLY | O_CREAT).write(bytes);
    }
  }
}

/// "" or what is wrong with the state: a checkpoint that is listed but not whole, or none as new as
/// `acknowledged`, or a `latest` that names none.
std::string fault_of(const DiskModel::Tree& tree, long acknowledged) {
  TemporaryFolder folder(TemporaryFolder::kMemory);
  materialise(tree, folder.path());
  TinyRun run;
  long newest = 0;
  for (const std::string& path : list_checkpoints(folder.path())) {
    const long step = std::stol(path.substr(path.rfind('_') + 1));
    newest = std::max(newest, step);
    try {
      if (!run.holds(path, step)) return "loads with other contents: " + path;
    } catch (const Error& e) {
      return e.render();
    }
  }
  if (newest < acknowledged) return "the acknowledged checkpoint is gone";
  const auto latest = tree.find("checkpoints/latest");
  if (latest == tree.end()) return acknowledged > 0 ? "latest is gone" : "";
  const std::string named = latest->second.substr(0, latest->second.size() - 1);
  const bool there = tree.contains("checkpoints/" + named + "/") ||
                     tree.contains("checkpoints/" + named + ".superseded/");
  return there ? "" : "latest names " + latest->second;
}

/// Crashes after every prefix of the log, without the fsyncs that `skips` selects, in several ways
/// each. Returns the first fault found and counts the different states.
std::string replay(const std::vector<FileOp>& log, const std::string& root, const FileOp* without,
                   std::size_t& states) {
  using Fate = DiskModel::Fate;
  constexpr std::uint64_t kRandomFates = 40;
  DiskModel disk(root);
  std::set<std::pair<long, DiskModel::Tree>> seen;
  long acknowledged = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].kind == FileOp::kMark) acknowledged = log[i].mark;
    if (&log[i] != without) disk.apply(log[i]);
    std::vector<DiskModel::Tree> trees;
    trees.push_back(disk.crash([](bool) { return Fate::kLost; }));
    trees.push_back(disk.crash([](bool) { return Fate::kWhole; }));
    trees.push_back(disk.crash([](bool is_name) { return is_name ? Fate::kWhole : Fate::kLost; }));
    trees.push_back(disk.crash([](bool is_name) { return is_name ? Fate::kWhole : Fate::kZeros; }));
    trees.push_back(disk.crash([](bool is_name) { return is_name ? Fate::kLost : Fate::kWhole; }));
    for (std::uint64_t seed = 0; seed < kRandomFates; ++seed) {
      std::uint64_t asked = 0;
      trees.push_back(
          disk.crash([&](bool) { return static_cast<Fate>(philox(seed, i, asked++)[0] % 4); }));
    }
    for (DiskModel::Tree& tree : trees) {
      const auto [place, fresh] = seen.emplace(acknowledged, std::move(tree));
      if (!fresh) continue;
      ++states;
      const std::string fault = fault_of(place->second, acknowledged);
      if (!fault.empty()) return "after call " + std::to_string(i) + ": " + fault;
    }
  }
  return "";
}

}  // namespace

TEST_CASE("a power cut at any moment leaves whole checkpoints, the acknowledged one among them") {
  TemporaryFolder folder;
  const auto log = record_saves(folder.path());
  std::size_t states = 0;
  CHECK(replay(log, folder.path(), nullptr, states) == "");
  CHECK(states > 1000);
}

TEST_CASE(
    "each fsync of a save is needed: without it the replay finds a power cut that does harm") {
  TemporaryFolder folder;
  const auto log = record_saves(folder.path());
  std::size_t syncs = 0;
  for (std::size_t i = 0; log[i].kind != FileOp::kMark; ++i) {
    if (log[i].kind != FileOp::kSync) continue;
    ++syncs;
    std::size_t states = 0;
    CAPTURE(log[i].path);
    CHECK(replay(log, folder.path(), &log[i], states) != "");
  }
  CHECK(syncs == 11);  // run, 5 files, manifest, their folder; checkpoints, latest, checkpoints
}
