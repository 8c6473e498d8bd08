// Several ranks write a checkpoint together, and any number of ranks reads it, each only its
// slices.

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

#include <catch2/catch.hpp>

#include "hgtrain/base/element.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/device/buffer.h"

#include "support/failing_file_ops.h"
#include "support/load_checkpoint.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

/// How a layout divides the elements of a TinyRun among its ranks, and what each keeps whole.
struct Division {
  std::vector<std::int64_t> cuts;  ///< where each rank's slices end
  bool sharded;                    ///< the optimizer's state and the average
  bool shards_parameters;

  int ranks() const { return static_cast<int>(cuts.size()); }
  /// A rank's elements, as two slices if there are enough.
  std::vector<Slice> slices(int rank) const {
    const std::int64_t begin = rank == 0 ? 0 : cuts[static_cast<std::size_t>(rank) - 1];
    const std::int64_t end = cuts[static_cast<std::size_t>(rank)], middle = (begin + end) / 2;
    if (begin == end) return {};
    if (middle == begin) return {{{begin, end}, begin}};
    return {{{begin, middle}, begin}, {{middle, end}, middle, middle - begin}};
  }
};

/// The flat buffers of one rank: of the whole model or of its shard.
class RankState {
 public:
  RankState(const Division& division, int rank, DType moments, DType parameters, DType weights,
            std::int64_t total) {
    flat_.slices = division.slices(rank);
    shard_ = flat_.slices.empty()
                 ? 0
                 : flat_.slices.back().in_shard + flat_.slices.back().elements.size();
    flat_.weights_dtype = weights;
    flat_.parameters = add(parameters, division.shards_parameters, total);
    flat_.moments = {{"exp_avg", add(moments, division.sharded, total)},
                     {"exp_avg_sq", add(moments, division.sharded, total)}};
    flat_.ema = add(DType::kF32, division.sharded, total);
  }
  const FlatState& flat() const { return flat_; }

  /// Fills every element that belongs to a parameter, of this rank's slices alone.
  void fill(const TinyRun& run) {
    each(run, [](float value, float& element) { element = value; });
  }
  bool holds(const TinyRun& run) {
    bool same = true;
    each(run, [&](float value, float& element) { same &= element == value; });
    return same;
  }

 private:
  FlatTensor add(DType dtype, bool sharded, std::int64_t total) {
    const std::int64_t count = sharded ? shard_ : total;
    memory_.emplace_back("state", count * static_cast<std::int64_t>(size_of(dtype)));
    return {Tensor(memory_.back().data(), {count}, dtype), sharded};
  }

  /// Calls fn(value, element) for all of its elements, whose value follows from their place.
  template <class Fn>
  void each(const TinyRun& run, const Fn& fn) {
    std::int64_t buffer = 0;
    for (const FlatTensor& values :
         {flat_.parameters, flat_.moments[0].values, flat_.moments[1].values, flat_.ema}) {
      ++buffer;
      for (const Slice& slice : flat_.slices)
        for (std::int64_t i = slice.elements.begin; i < slice.elements.end; ++i) {
          const bool used = std::ranges::any_of(run.table.parameters, [&](const Parameter& p) {
            return p.offset <= i && i < p.offset + p.numel;
          });
          if (!used) continue;
          const Tensor at = values.at(slice.part({i, i + 1}));
          const auto value = static_cast<float>(buffer * 1000 + i) / 7.0f;
          visit_element(at.dtype(), [&]<class T>(T) {
            float element = static_cast<float>(*at.data<T>());
            fn(static_cast<float>(T(value)), element);
            *at.data<T>() = T(element);
          });
        }
    }
  }

  std::int64_t shard_ = 0;
  std::vector<Buffer> memory_;
  FlatState flat_;
};

/// Saves the step as the ranks of the division do; the errors of wait().
std::vector<std::string> save(const std::string& run_dir, const Division& division,
                              std::int64_t step, bool async,
                              const std::function<void(int, RankState&)>& change = nullptr,
                              DType moments = DType::kF32, DType parameters = DType::kF32,
                              DType weights = DType::kF32) {
  std::vector<std::string> errors(division.cuts.size());
  const auto thrown = run_ranks(over_shared_memory, division.ranks(), [&](Communicator& comm) {
    TinyRun run;
    run.at(step);
    RankState state(division, comm.rank(), moments, parameters, weights, run.table.total);
    state.fill(run);
    if (change) change(comm.rank(), state);
    CheckpointWriter::Options options;
    options.comm = &comm;
    options.run_dir = run_dir;
    if (const auto newest = newest_checkpoint(run_dir)) options.origin = newest->path;
    options.async_save = async;
    const auto writer = CheckpointWriter::create(run.model, run.table, options);
    writer->save(run.state, state.flat());
    writer->save(run.state, state.flat());  // the same on all ranks: it is saved already, or again
    if (const auto error = writer->wait())
      errors[static_cast<std::size_t>(comm.rank())] = error->message();
  });
  CHECK(thrown == std::vector<std::string>(thrown.size()));
  return errors;
}

const Division kOne{{128}, false, false};
const Division kDivisions[] = {
    kOne,
    {{40, 128}, false, false},    // stage 0, uneven
    {{40, 128}, true, false},     // stages 1 and 2
    {{20, 21, 128}, true, true},  // stage 3
    {{64, 64, 128}, true, true},  // a rank without any
    {{128, 128}, false, false},
};

}  // namespace

TEST_CASE("what any ranks save, any others load, bit for bit") {
  const auto types = GENERATE(std::tuple(DType::kF32, DType::kF32, DType::kF32),
                              std::tuple(DType::kF32, DType::kF32, DType::kBF16),
                              std::tuple(DType::kBF16, DType::kBF16, DType::kBF16));
  const auto [moments, parameters, weights] = types;
  for (const Division& saved : kDivisions) {
    const TemporaryFolder folder(TemporaryFolder::kMemory);
    REQUIRE(save(folder.path(), saved, 3, true, nullptr, moments, parameters, weights) ==
            std::vector<std::string>(saved.cuts.size()));
    const std::string path = list_checkpoints(folder.path()).front();
    for (const Division& loaded : kDivisions)
      for (int rank = 0; rank < loaded.ranks(); ++rank) {
        TinyRun run;
        run.at(3);
        RankState state(loaded, rank, moments, parameters, weights, run.table.total);
        const LoadedCheckpoint found = load_checkpoint(path, run.model, run.table, state.flat());
        CHECK(found.state == run.state);
        CHECK(found.has_ema);
        CHECK(state.holds(run));
      }
  }
}

TEST_CASE("the folder that several ranks write is the one that one rank writes") {
  const TemporaryFolder one, three;
  save(one.path(), kOne, 3, false);
  save(three.path(), {{20, 21, 128}, true, true}, 3, false);
  const std::string a = one / "checkpoints/step_00000003", b = three / "checkpoints/step_00000003";
  CHECK(list_folder(a) == list_folder(b));
  for (const std::string& name : list_folder(a))
    if (name != "manifest.json")
      CHECK(read_file(a + "/" + name, 1 << 20) == read_file(b + "/" + name, 1 << 20));
}

TEST_CASE("a state that is not finite on one rank is saved by none") {
  const TemporaryFolder folder;
  save(folder.path(), kDivisions[1], 1, true);
  const auto errors = save(folder.path(), kDivisions[1], 2, true, [](int rank, RankState& state) {
    if (rank == 1)
      state.flat().moments[1].values.values.data<float>()[66] =
          std::numeric_limits<float>::quiet_NaN();
  });
  for (const std::string& error : errors)
    CHECK(error ==
          "checkpoint step_00000002 could not be written: "
          "a value to be saved is not finite: element 2 of exp_avg_sq.transformer.ln_f.weight is "
          "nan (rank 1 on " +
              host_name() + ")");
  CHECK(list_folder(folder / "checkpoints") ==
        std::vector<std::string>{"latest", "origin", "step_00000001"});
}

TEST_CASE("a call that fails on any rank costs a save on all, never a checkpoint") {
  int calls = 0;
  for (int k = -1; k < calls; ++k) {
    CAPTURE(k);
    const TemporaryFolder folder(TemporaryFolder::kMemory);
    save(folder.path(), kDivisions[2], 1, true);
    FailingFileOps failing(k, ENOSPC);
    std::atomic<bool> first_failed = false;
    {
      // Only of the save: the writers are created before.
      std::optional<FileOpsOverride> override_ops;
      const auto thrown = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
        CheckpointWriter::Options options;
        options.comm = &comm;
        options.run_dir = folder.path();
        options.origin = folder / "checkpoints/step_00000001";
        TinyRun run;
        run.at(2);
        RankState state(kDivisions[2], comm.rank(), DType::kF32, DType::kF32, DType::kF32, 128);
        state.fill(run);
        const auto writer = CheckpointWriter::create(run.model, run.table, options);
        comm.barrier();
        if (comm.rank() == 0) override_ops.emplace(failing);
        comm.barrier();
        writer->save(run.state, state.flat());
        const bool failed = writer->wait().has_value();
        comm.barrier();
        if (comm.rank() == 0) {
          override_ops.reset();
          first_failed = failed;
        }
        comm.barrier();
        if (failed != first_failed) throw Error(ErrorKind::kInternal, "they differ");
      });
      CHECK(thrown == std::vector<std::string>(2));
    }
    if (k < 0) calls = failing.calls();
    const auto folders = list_checkpoints(folder.path());
    REQUIRE_FALSE(folders.empty());
    for (const std::string& path : folders) {
      TinyRun run;
      RankState state(kOne, 0, DType::kF32, DType::kF32, DType::kF32, 128);
      load_checkpoint(path, run.model, run.table, state.flat());
      CHECK(state.holds(run));
    }
    // What has its name already stays, even if that is not sure to be on the disk.
    CHECK((first_failed ? folders.back().ends_with("1") : folders.front().ends_with("2")));
  }
  CHECK(calls > 30);
}
