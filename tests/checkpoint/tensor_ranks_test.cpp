// Checkpoints of tensor-parallel ranks are those of one rank, and any number of them loads any.

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <optional>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/element.h"
#include "hgtrain/base/file.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/parallel/layout.h"

#include "support/failing_file_ops.h"
#include "support/load_checkpoint.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"
#include "written_file.h"

using namespace hgt;

namespace {

/// How many ranks there are along each axis.
struct Grid {
  int data = 1, tensor = 1, pipeline = 1;
  int ranks() const { return data * tensor * pipeline; }
  Coordinates at(int rank) const {
    return Layout{.pipeline_size = pipeline, .data_size = data, .tensor_size = tensor}
        .coordinates_of(rank);
  }
};
const Grid kOneRank{1, 1};
const Grid kGrids[] = {kOneRank, {2, 1}, {1, 2}, {2, 2}, {1, 4}, {3, 4}, {2, 2, 2}};

/// 4 heads, and a vocabulary that no number of ranks divides.
ModelConfig small_model(const std::string& type) {
  ModelConfig m;
  m.model_type = type;
  m.vocab_size = 53;
  m.hidden_size = 8;
  m.intermediate_size = 12;
  m.num_hidden_layers = 2;
  m.num_attention_heads = 4;
  m.num_key_value_heads = type == "gpt2" ? 4 : 2;
  m.head_dim = 2;
  m.max_position_embeddings = 7;
  m.hidden_act = type == "gpt2" ? "gelu_new" : "silu";
  m.attention_bias = type != "qwen3";
  m.attention_out_bias = m.mlp_bias = type == "gpt2";
  m.qk_norm = type == "qwen3";
  m.tie_word_embeddings = type != "llama";
  return m;
}

struct Types {
  DType moments = DType::kF32, parameters = DType::kF32, weights = DType::kF32;
};

/// The state of one rank of a grid; the value of an element follows from its tensor and its place
/// there.
class GridRank {
 public:
  GridRank(const ModelConfig& model, Grid grid, int rank, const Types& types = {})
      : table(parameter_table(model, true, grid.tensor)) {
    const Coordinates at = grid.at(rank);
    flat.tensor = {at.tensor, grid.tensor};
    const Range blocks = even_range(table.num_blocks(), grid.pipeline, at.pipeline);
    stage_ = {table.block(static_cast<int>(blocks.begin)).begin,
              table.block(static_cast<int>(blocks.end) - 1).end};
    // Cuts within rows.
    own_ = even_range(stage_.size(), grid.data, at.data);
    own_ = {stage_.begin + own_.begin, stage_.begin + own_.end};
    const std::int64_t middle = (own_.begin + own_.end) / 2 + 1;
    flat.slices = {{{own_.begin, middle}, own_.begin - stage_.begin},
                   {{middle, own_.end}, middle - stage_.begin, middle - own_.begin}};
    flat.weights_dtype = types.weights;
    flat.parameters = add(types.parameters, false);
    for (const char* name : {"exp_avg", "exp_avg_sq"})
      flat.moments.push_back({name, add(types.moments, true)});
    flat.ema = add(DType::kF32, true);
  }

  void fill() {
    each([](float value, float& element) { element = value; });
  }
  bool holds() {
    bool same = true;
    each([&](float value, float& element) { same &= element == value; });
    return same;
  }

  const ParameterTable table;
  FlatState flat;

 private:
  FlatTensor add(DType dtype, bool sharded) {
    const std::int64_t count = sharded ? own_.size() : stage_.size();
    memory_.emplace_back("state", count * static_cast<std::int64_t>(size_of(dtype)));
    return {Tensor(memory_.back().data(), {count}, dtype), sharded};
  }

  /// Calls fn(value, element) for all of its elements; the value of padding is 0.
  template <class Fn>
  void each(const Fn& fn) {
    std::vector<float> places(static_cast<std::size_t>(table.total), 0.0f);
    for (const Parameter& p : table.parameters)
      p.placement(flat.tensor).for_each_run({0, p.numel}, [&](const Placement::Run& run) {
        for (std::int64_t i = 0; i < run.size; ++i)
          places[static_cast<std::size_t>(p.offset + run.local + i)] =
              static_cast<float>(run.whole + i + 1) + static_cast<float>(p.name.size()) / 64;
      });
    float buffer = 0;
    for (const FlatTensor& values :
         {flat.parameters, flat.moments[0].values, flat.moments[1].values, flat.ema}) {
      buffer += 1;
      for (const Slice& slice : flat.slices)
        visit_element(values.values.dtype(), [&]<class T>(T) {
          T* const elements = values.at(slice).data<T>();
          for (std::int64_t i = 0; i < slice.elements.size(); ++i) {
            const float place = places[static_cast<std::size_t>(slice.elements.begin + i)];
            float element = static_cast<float>(elements[i]);
            fn(static_cast<float>(T(place * buffer / 7)), element);
            elements[i] = T(element);
          }
        });
    }
  }

  Range stage_, own_;  ///< elements of its pipeline stage, and those of them that it saves
  std::vector<Buffer> memory_;
};

/// Runs body(rank's state, world, tensor group) as the ranks of a grid; the errors.
std::vector<std::string> run_grid(
    const ModelConfig& model, Grid grid, const Types& types,
    const std::function<void(GridRank&, Communicator&, Communicator&)>& body) {
  MemoryChannel groups;
  return run_ranks(over_shared_memory, grid.ranks(), [&](Communicator& world) {
    GridRank state(model, grid, world.rank(), types);
    const auto tensor = over_shared_memory(
        groups, {.group = fmt::format("tensor of {}", world.rank() / grid.tensor),
                 .rank = state.flat.tensor.rank,
                 .size = grid.tensor,
                 .timeout = std::chrono::seconds(30)});
    body(state, world, *tensor);
  });
}

std::unique_ptr<CheckpointWriter> writer_of(const std::string& run_dir, const ModelConfig& model,
                                            const GridRank& state, Communicator& world,
                                            Communicator& tensor) {
  CheckpointWriter::Options options;
  options.comm = &world;
  options.tensor = &tensor;
  options.run_dir = run_dir;
  return CheckpointWriter::create(model, state.table, options);
}

/// Saves step 1 as the ranks of a grid do; what wait() says.
std::vector<std::string> save(const std::string& run_dir, const ModelConfig& model, Grid grid,
                              const Types& types = {},
                              const std::function<void(int, GridRank&)>& change = nullptr) {
  std::vector<std::string> errors(static_cast<std::size_t>(grid.ranks()));
  const auto thrown =
      run_grid(model, grid, types, [&](GridRank& state, Communicator& world, Communicator& tensor) {
        state.fill();
        if (change) change(world.rank(), state);
        const auto writer = writer_of(run_dir, model, state, world, tensor);
        writer->save({.step = 1}, state.flat);
        if (const auto error = writer->wait())
          errors[static_cast<std::size_t>(world.rank())] = error->message();
      });
  CHECK(thrown == std::vector<std::string>(errors.size()));
  return errors;
}

std::string saved_in(const TemporaryFolder& folder) {
  return folder / "checkpoints/step_00000001";
}

std::string load_error(const std::string& path, const ModelConfig& model, Grid grid, int rank) {
  return error_of([&] {
           GridRank state(model, grid, rank);
           load_checkpoint(path, model, state.table, state.flat);
         })
      .message();
}

/// Changes the byte of an element of a tensor of fp32 values.
void damage(const std::string& path, const std::string& tensor, std::int64_t element) {
  std::string bytes = read_file(path, 1 << 20);
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto info = std::ranges::find(file.tensors(), tensor, &TensorInfo::name);
  const std::int64_t data = std::ssize(bytes) - file.tensors().back().end;
  bytes[static_cast<std::size_t>(data + info->begin + 4 * element)] ^= 1;
  remove_file(path);
  write_new_file(path, bytes);
}

}  // namespace

TEST_CASE("what ranks of any layout save is what one rank saves, and any others load it") {
  const auto [type, types] =
      GENERATE(table<const char*, Types>({{"gpt2", Types{}},
                                          {"llama", {DType::kF32, DType::kF32, DType::kBF16}},
                                          {"qwen2", {DType::kBF16, DType::kBF16, DType::kBF16}},
                                          {"qwen3", Types{}}}));
  const ModelConfig model = small_model(type);
  const TemporaryFolder one(TemporaryFolder::kMemory);
  save(one.path(), model, kOneRank, types);
  for (const Grid& saved : kGrids) {
    CAPTURE(type, saved.data, saved.tensor, saved.pipeline);
    const TemporaryFolder folder(TemporaryFolder::kMemory);
    REQUIRE(save(folder.path(), model, saved, types) ==
            std::vector<std::string>(static_cast<std::size_t>(saved.ranks())));
    const std::string path = saved_in(folder), expected = saved_in(one);
    CHECK(list_folder(path) == list_folder(expected));
    for (const std::string& name : list_folder(path))
      if (name != "manifest.json")
        CHECK(read_file(path + "/" + name, 1 << 20) == read_file(expected + "/" + name, 1 << 20));
    for (const Grid& loaded : kGrids)
      for (int rank = 0; rank < loaded.ranks(); ++rank) {
        GridRank state(model, loaded, rank, types);
        const LoadedCheckpoint found = load_checkpoint(path, model, state.table, state.flat);
        CHECK(found.state.step == 1);
        CHECK(state.holds());
      }
  }
}

TEST_CASE("a number that is not finite is named by its place in the whole tensor, on all ranks") {
  const ModelConfig model = small_model("llama");
  const TemporaryFolder folder(TemporaryFolder::kMemory);
  // Rank 3's first element of a matrix whose columns are split: [8, 12], 3 columns each.
  const auto errors = save(folder.path(), model, {1, 4}, {}, [](int rank, GridRank& state) {
    const Parameter& down = state.table.find("model.layers.1.mlp.down_proj.weight");
    if (rank == 3)
      state.flat.parameters.values.data<float>()[down.offset + 3] =
          std::numeric_limits<float>::infinity();
  });
  for (const std::string& error : errors)
    CHECK_THAT(error,
               Catch::Contains("element 21 of model.layers.1.mlp.down_proj.weight is inf (rank "));
  CHECK(list_checkpoints(folder.path()).empty());
}

TEST_CASE("a call that fails on any tensor rank costs a save on all, and none waits in vain") {
  const ModelConfig model = small_model("gpt2");
  const TemporaryFolder folder(TemporaryFolder::kMemory);
  std::optional<FailingFileOps> failing;
  std::optional<FileOpsOverride> override_ops;
  std::atomic<int> calls = 0;
  std::array<std::atomic<bool>, 2> failed{};
  const auto body = [&](GridRank& state, Communicator& world, Communicator& tensor) {
    const auto on_first = [&](auto action) {
      world.barrier();
      if (world.rank() == 0) action();
      world.barrier();
    };
    state.fill();
    for (int k = -1; k < calls; ++k) {
      on_first([&] {
        remove_tree(folder.path());
        make_folders(folder.path());
      });
      const auto writer = writer_of(folder.path(), model, state, world, tensor);
      on_first([&] { override_ops.emplace(failing.emplace(k, ENOSPC)); });
      writer->save({.step = 1}, state.flat);
      failed[static_cast<std::size_t>(world.rank())] = writer->wait().has_value();
      on_first([&] {
        override_ops.reset();
        if (k < 0) calls = failing->calls();
        bool whole = true;
        for (const std::string& path : list_checkpoints(folder.path())) {
          GridRank loaded(model, kOneRank, 0);
          load_checkpoint(path, model, loaded.table, loaded.flat);
          whole &= loaded.holds();
        }
        if (failed[0] != failed[1] || !whole)
          throw Error(ErrorKind::kInternal, fmt::format("call {}", k));
      });
    }
  };
  CHECK(run_grid(model, {1, 2}, {}, body) == std::vector<std::string>(2));
  CHECK(calls > 30);
}

TEST_CASE("damage is named by the tensor ranks that read it") {
  const ModelConfig model = small_model("llama");
  const TemporaryFolder folder(TemporaryFolder::kMemory);
  save(folder.path(), model, {1, 2});
  const std::string path = saved_in(folder) + "/optimizer.safetensors";
  const std::string name = "exp_avg.lm_head.weight";
  damage(path, name, 52 * 8);  // the last row
  CHECK(load_error(saved_in(folder), model, {1, 2}, 0) == "(no error)");
  for (const auto& [grid, rank] : {std::pair{Grid{1, 2}, 1}, {kOneRank, 0}, {Grid{2, 4}, 7}})
    CHECK(load_error(saved_in(folder), model, grid, rank) ==
          path + " is damaged: tensor " + name + " does not have the manifest's hash");
}

TEST_CASE("tensor ranks load their parts of an HF folder") {
  for (const char* type : {"gpt2", "llama", "qwen2"}) {
    const ModelConfig model = small_model(type);
    const TemporaryFolder folder(TemporaryFolder::kMemory);
    save(folder.path(), model, kOneRank);
    const std::string path = saved_in(folder);
    remove_file(path + "/manifest.json");
    for (const Grid& grid : kGrids)
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        GridRank loaded(model, grid, rank), expected(model, grid, rank);
        load_hf_weights(path, loaded.table, loaded.flat.parameters, loaded.flat.slices,
                        loaded.flat.tensor);
        expected.fill();
        for (const Slice& slice : loaded.flat.slices)
          CHECK(std::equal(loaded.flat.parameters.at(slice).data<float>(),
                           loaded.flat.parameters.at(slice).data<float>() + slice.elements.size(),
                           expected.flat.parameters.at(slice).data<float>()));
      }
  }
}

TEST_CASE("of a tied model, the tensor rank that has the rows notices another output matrix") {
  ModelConfig model = small_model("llama");
  const TemporaryFolder folder(TemporaryFolder::kMemory);
  save(folder.path(), model, kOneRank);
  const std::string path = saved_in(folder);
  remove_file(path + "/manifest.json");
  GridRank state(model, kOneRank, 0);
  const auto tensor = [&](const std::string& name) {
    const Parameter& p = state.table.find(name);
    return Tensor(state.flat.parameters.values.data<float>() + p.offset, {p.numel});
  };
  state.fill();
  std::copy_n(tensor("model.embed_tokens.weight").data<float>(), 53 * 8,
              tensor("lm_head.weight").data<float>());
  tensor("lm_head.weight").data<float>()[300] += 1;  // row 37 of 53
  std::vector<WholeTensor> tensors;
  for (const Parameter& p : state.table.parameters)
    tensors.push_back({p.name, p.shape, tensor(p.name)});
  remove_file(path + "/model.safetensors");
  write_safetensors(path + "/model.safetensors", tensors);
  model.tie_word_embeddings = true;
  const auto error = [&](int rank) {
    return error_of([&] {
             GridRank loaded(model, {1, 2}, rank);
             load_hf_weights(path, loaded.table, loaded.flat.parameters, loaded.flat.slices,
                             loaded.flat.tensor);
           })
        .message();
  };
  CHECK(error(0) == "(no error)");
  CHECK_THAT(error(1), Catch::Contains("differs from the embedding"));
}
