// The order of writes and fsyncs: a series of saves is recorded, every prefix of the record is a
// moment at which the power may fail, and of what was not synced by then anything may be lost, torn
// or ahead of the rest (disk_model.h). In every such state the run is on one branch with its
// config, each checkpoint of that is whole, and the last acknowledged one is there.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "disk_model.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

/// Marks are written as branch * 1000 + step: the step of that branch is acknowledged from then on.
long mark_of(long branch, long step) {
  return branch * 1000 + step;
}

/// Branch 1 saves 10, 20, 30; branch 2 goes back to 20 and saves 40; branch 3 starts from a
/// checkpoint elsewhere and saves 5.
std::vector<FileOp> record_saves(const std::string& run_dir, const std::string& elsewhere) {
  RecordingFileOps recording;
  const FileOpsOverride override_ops(recording);
  TinyRun run;
  const auto save_all = [&](long branch, const std::string& origin,
                            std::initializer_list<std::int64_t> steps, std::int64_t keep) {
    const std::string end = branch == 1 ? ".json" : ".next.json";
    write_file_atomically(run_dir + "/resolved" + end, std::to_string(branch));
    write_file_atomically(run_dir + "/config" + end, std::to_string(branch));
    const auto writer = run.writer_from(origin, run_dir, keep, true);
    recording.mark(mark_of(branch, branch == 2 ? 20 : 0));
    for (const std::int64_t step : steps) {
      run.at(step);
      writer->save(run.state, run.flat());
      REQUIRE_FALSE(writer->wait());
      recording.mark(mark_of(branch, step));
    }
  };
  save_all(1, "", {10, 20, 30}, 2);
  save_all(2, run_dir + "/checkpoints/step_00000020", {40}, 1);
  save_all(3, elsewhere, {5}, 1);
  return recording.log();
}

/// Two ranks save 10 and 20 together.
std::vector<FileOp> record_saves_of_two(const std::string& run_dir) {
  RecordingFileOps recording;
  std::optional<FileOpsOverride> override_ops;
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    comm.barrier();  // both are connected, which takes files too
    if (comm.rank() == 0) {
      override_ops.emplace(recording);
      for (const char* name : {"/resolved.json", "/config.json"})
        write_file_atomically(run_dir + name, "1");
    }
    comm.barrier();
    TinyRun run;
    CheckpointWriter::Options options;
    options.comm = &comm;
    options.run_dir = run_dir;
    const auto writer = CheckpointWriter::create(run.model, run.table, options);
    for (const std::int64_t step : {10, 20}) {
      run.at(step);
      FlatState flat = run.flat();
      flat.slices = {comm.rank() == 0 ? Slice{{0, 20}} : Slice{{20, run.table.total}, 20}};
      writer->save(run.state, flat);
      if (const auto error = writer->wait()) throw Error(*error);
      if (comm.rank() == 0) recording.mark(mark_of(1, step));
    }
    comm.barrier();
    if (comm.rank() == 0) override_ops.reset();
    comm.barrier();
  });
  REQUIRE(errors == std::vector<std::string>(2));
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

/// "" or what is wrong with the state: the run is on neither the acknowledged branch nor the next
/// one, a checkpoint that is listed is of another branch or not whole, none is as new as the
/// acknowledged one, or `latest` names none.
std::string find_fault(const DiskModel::Tree& tree, long acknowledged,
                       const std::string& elsewhere) {
  const long branch = acknowledged / 1000, step = acknowledged % 1000;
  TemporaryFolder folder(TemporaryFolder::kMemory);
  materialise(tree, folder.path());
  put_config_in_place(folder.path());
  const auto branch_of = [&](const char* name) {
    const std::string path = folder / name;
    return std::filesystem::exists(path) ? std::stol(read_file(path, 10)) : 1;
  };
  const long found = branch_of("resolved.json");
  if (found != branch_of("config.json")) return "it has the configs of two branches";
  if (found != branch && found != branch + 1) return "it is on branch " + std::to_string(found);
  const std::vector<long> of_branch[] = {{}, {10, 20, 30}, {10, 20, 40}, {5}};
  TinyRun run;
  std::vector<std::string> names;
  long newest = 0;
  for (const std::string& path : list_checkpoints(folder.path())) {
    names.push_back(path.substr(path.rfind('/') + 1));
    const long saved = std::stol(names.back().substr(names.back().find('_') + 1));
    newest = std::max(newest, saved);
    const auto& steps = of_branch[found];
    if (std::find(steps.begin(), steps.end(), saved) == steps.end())
      return "branch " + std::to_string(found) + " lists " + path;
    if (!run.holds(path, saved)) return "loads with other contents: " + path;
  }
  const auto origin = read_origin(folder.path());
  if (found == 3 && newest == 0 && (!origin || origin->checkpoint != elsewhere))
    return "it is not known where branch 3 began";
  if (found > branch) return found == 2 && newest != 20 ? "branch 2 begins elsewhere" : "";
  if (newest < step) return "the acknowledged checkpoint is gone";
  if (origin || names.empty()) return "";
  const auto latest = tree.find("checkpoints/latest");
  if (latest == tree.end()) return step > 0 ? "latest is gone" : "";
  const std::string named = latest->second.substr(0, latest->second.size() - 1);
  const bool there = std::find(names.begin(), names.end(), named) != names.end();
  return there && step_of(named) >= step ? "" : "latest names " + latest->second;
}

std::string fault_of(const DiskModel::Tree& tree, long acknowledged, const std::string& elsewhere) {
  try {
    return find_fault(tree, acknowledged, elsewhere);
  } catch (const Error& e) {
    return e.render();
  }
}

/// What crashes left without a fault: what was acknowledged, and the disk.
using States = std::set<std::pair<long, DiskModel::Tree>>;

/// Crashes after every prefix of the log, except for the fsync `without`, in several ways each.
/// Returns the first fault found, and adds to `whole` the states before it; those that are there
/// already are not looked at again.
std::string replay(const std::vector<FileOp>& log, const std::string& root,
                   const std::string& elsewhere, const FileOp* without, States& whole) {
  using Fate = DiskModel::Fate;
  constexpr std::uint64_t kRandomFates = 25;
  DiskModel disk(root);
  long acknowledged = mark_of(1, 0);
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].kind == FileOp::kMark) acknowledged = std::max(acknowledged, log[i].mark);
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
      const auto [place, fresh] = whole.emplace(acknowledged, std::move(tree));
      const std::string fault = fresh ? fault_of(place->second, acknowledged, elsewhere) : "";
      if (fault.empty()) continue;
      whole.erase(place);
      return "after call " + std::to_string(i) + ": " + fault;
    }
  }
  return "";
}

}  // namespace

TEST_CASE(
    "a power cut at any moment leaves the run on one branch, with whole checkpoints, the "
    "acknowledged one among them") {
  const TemporaryFolder folder, elsewhere;
  const auto log = record_saves(folder.path(), elsewhere.path());
  States whole;
  CHECK(replay(log, folder.path(), elsewhere.path(), nullptr, whole) == "");
  CHECK(whole.size() > 1000);
}

TEST_CASE("the same holds if two ranks save together") {
  const TemporaryFolder folder;
  const auto log = record_saves_of_two(folder.path());
  States whole;
  CHECK(replay(log, folder.path(), "", nullptr, whole) == "");
  CHECK(whole.size() > 400);
}

TEST_CASE("each fsync is needed: without it the replay finds a power cut that does harm") {
  const TemporaryFolder folder, elsewhere;
  const auto log = record_saves(folder.path(), elsewhere.path());
  const auto at = [&](long branch, long step) {
    return std::find_if(log.begin(), log.end(),
                        [&](const FileOp& op) {
                          return op.kind == FileOp::kMark && op.mark == mark_of(branch, step);
                        }) -
           log.begin();
  };
  const auto syncs_between = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    std::vector<const FileOp*> syncs;
    for (std::ptrdiff_t i = begin; i < end; ++i)
      if (log[static_cast<std::size_t>(i)].kind == FileOp::kSync)
        syncs.push_back(&log[static_cast<std::size_t>(i)]);
    return syncs;
  };
  // 5 files, manifest, their folder; checkpoints, latest, checkpoints
  std::vector<const FileOp*> syncs = syncs_between(at(1, 10), at(1, 20));
  CHECK(syncs.size() == 10);
  // Of the first save the removal of the origin, too.
  syncs.push_back(syncs_between(at(1, 0), at(1, 10)).back());
  // Of the beginning of branch 2 the origin, its name, and the names of its configs. What comes
  // before and after may be lost: the origin says where the branch begins.
  const auto begin = syncs_between(at(1, 30), at(2, 20));
  CHECK(begin.size() == 11);
  syncs.insert(syncs.end(), begin.begin() + 5, begin.begin() + 9);
  States whole;  // the replays have the same states up to the fsync that they leave out
  for (const FileOp* sync : syncs) {
    CAPTURE(sync->path);
    CHECK(replay(log, folder.path(), elsewhere.path(), sync, whole) != "");
  }
}
