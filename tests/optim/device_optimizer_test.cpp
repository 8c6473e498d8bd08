#include "device_optimizer.h"

#include <catch2/catch.hpp>

#include "optimizer_runs.h"
#include "support/fake_cuda.h"

using namespace hgt;

namespace {

// What the module was asked for last.
UpdateElementsArgs g_elements;
UpdateLambArgs g_lamb;

const CudaOpsTable& remembering() {
  static const CudaOpsTable table = [] {
    CudaOpsTable t{};
    t.update_elements = [](const UpdateElementsArgs* args, CudaStreamState*) -> CudaResult {
      return g_elements = *args, nullptr;
    };
    t.update_lamb = [](const UpdateLambArgs* args, CudaStreamState*) -> CudaResult {
      return g_lamb = *args, nullptr;
    };
    return t;
  }();
  return table;
}

/// An optimizer whose buffers lie at made-up addresses of the fake device.
struct Fixture {
  CudaModule module = fake_cuda::module(&remembering(), nullptr);
  CudaQueue queue{Device::cuda(0), module};
  const ParameterTable table = table_of({40'000, 5}, 1);

  static std::span<float> at(std::uintptr_t address) {
    return {reinterpret_cast<float*>(address), 1};
  }
  void step(const OptimizerConfig& config) {
    Optimizer::Buffers buffers{at(0x1000), at(0x2000), {}};
    for (std::size_t i = 0; i < optimizer_state(config).size(); ++i)
      buffers.state.push_back(at(0x3000 + 0x1000 * i));
    Optimizer optimizer(config, table, buffers, queue);
    optimizer.step({0.25, {}, {}}, 0.5, 1);
    queue.synchronize();
    inspect();
  }
  virtual void inspect() const {}  ///< while the optimizer and its memory on the device are there
  virtual ~Fixture() = default;
};

struct Elements : Fixture {
  void inspect() const override {
    CHECK(g_elements.parameters == at(0x1000).data());
    CHECK(g_elements.gradients == at(0x2000).data());
    CHECK((g_elements.count == table.total && g_elements.decay_end == table.decay_end));
    CHECK((g_elements.update->lr == 0.25f && g_elements.update->gradient_factor == 0.5f));
    CHECK((g_elements.update->beta1 == 0.9f && g_elements.update->skip == 0));
  }
};

struct LambPieces : Fixture {
  void inspect() const override {
    CHECK((g_lamb.tensors == 2 && g_lamb.piece_count == 4));
    CHECK((g_lamb.first_pieces[1] == 3 && g_lamb.first_pieces[2] == 4));
    std::int64_t end = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK((g_lamb.pieces[i].begin == end && g_lamb.pieces[i].tensor == 0));
      CHECK(g_lamb.pieces[i].decay == 1);
      end = g_lamb.pieces[i].end;
    }
    CHECK(end == 40'000);
    const LambPiece& last = g_lamb.pieces[3];
    CHECK((last.begin == table.decay_end && last.end == last.begin + 5 && last.tensor == 1));
    CHECK(last.decay == 0);
    CHECK(g_lamb.exp_avg_sq == at(0x4000).data());
    CHECK(g_lamb.update->weight_decay == 0.125f);
  }
};

}  // namespace

TEST_CASE_METHOD(Elements, "each optimizer has its rule on a device") {
  OptimizerConfig config;
  const auto rule = [&] {
    step(config);
    return g_elements.rule;
  };
  config.type = "AdamW";
  CHECK(rule() == UpdateRule::kAdamW);
  CHECK(g_elements.state2 == at(0x4000).data());
  config.type = "Adam";
  config.adam_w_mode = false;
  CHECK(rule() == UpdateRule::kAdam);
  config.type = "Lion";
  CHECK(rule() == UpdateRule::kLion);
  CHECK(g_elements.state2 == nullptr);
  config.type = "Adagrad";
  CHECK(rule() == UpdateRule::kAdagrad);
  config.type = "SGD";
  config.momentum = 0;
  CHECK(rule() == UpdateRule::kSgd);
  CHECK(g_elements.state1 == nullptr);
  config.momentum = 0.9;
  CHECK(rule() == UpdateRule::kMomentum);
  config.nesterov = true;
  CHECK(rule() == UpdateRule::kNesterov);
}

TEST_CASE_METHOD(LambPieces, "Lamb's tensors are cut into pieces") {
  OptimizerConfig config;
  config.type = "Lamb";
  config.weight_decay = 0.125;
  step(config);
}
