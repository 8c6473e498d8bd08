#include "hgtrain/ops/update.h"

#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace {

/// The update after prepare_update, from two micro-batches and the squares of three pieces.
Update prepared(Update update, double square, double loss = 1) {
  ThreadPool pool(1);
  double losses[2] = {loss, 3}, squares[3] = {square / 4, square / 2, square / 4};
  prepare_update(Tensor(losses, {2}, DType::kF64), Tensor(squares, {3}, DType::kF64), &update,
                 pool);
  return update;
}

}  // namespace

TEST_CASE("losses are a mean over the tokens, norms without the loss scale") {
  Update update{};
  update.loss_scale = 4;
  update.tokens = 8;
  const Update done = prepared(update, 64);
  CHECK(done.loss == 0.5);
  CHECK(done.norm == 2);
  CHECK(done.gradient_factor == 0.25f);
  CHECK(done.skip == 0);
}

TEST_CASE("gradients are scaled down to the clip and never up") {
  Update update{};
  update.clip = 1;
  CHECK(prepared(update, 100).gradient_factor == Approx(1 / (10 + 1e-6)));
  CHECK(prepared(update, 0.25).gradient_factor == 1);
  update.clip = 0;
  CHECK(prepared(update, 100).gradient_factor == 1);
}

TEST_CASE("a step that is not finite is skipped, and after a halt all that follow are, too") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  CHECK(prepared({}, kNan).skip == 1);
  CHECK(prepared({}, 1, kInfinity).skip == 1);
  for (const int halt : {0, 1}) {
    Update update{};
    update.halt_on_nonfinite = halt;
    CHECK(prepared(prepared(update, kInfinity), 1).skip == halt);
  }
}

namespace {

/// Buffers of a model of one tensor after another, and an update of them.
struct Updated {
  static constexpr std::int64_t kCount = 1003, kDecayEnd = 384;
  static constexpr std::int64_t kSquares = 9 * 128;  ///< more than a block has threads
  explicit Updated(DType parameters = DType::kF32, DType states = DType::kF32)
      : p(queue, normal({kCount}, 1, 1, parameters)),
        s1(queue, floats(squares(3), {kCount}, states)),
        s2(queue, floats(squares(4), {kCount}, states)) {}
  CudaQueue queue{Device::cuda(0), *module_with_device()};
  const CudaOpsTable& ops = queue.module().ops();
  DeviceCopy p, g{queue, normal({kCount}, 2)}, s1, s2,
      weights{queue, normal({kCount}, 5, 1, DType::kBF16)},
      update{queue, normal({sizeof(Update) / 4}, 6)},
      losses{queue, stored<double>(Doubles{1.0, 3.0}, {2}, DType::kF64)},
      square_sums{queue,
                  stored<double>(Doubles(kSquares, 9.0 / kSquares), {kSquares}, DType::kF64)};
  PiecesOnDevice pieces{queue,
                        {{0, kDecayEnd, 0, 0, 0, 0, 1, 11},
                         {kDecayEnd, kCount, kDecayEnd, 0, 1, 1, 0, 12, 371, 37, 111, 74}}};
  /// An element's number among those with which `what` is rounded: the second piece belongs to a
  /// parameter of which this rank has a part.
  static std::uint32_t rounding_number(std::uint64_t key, Rounded what, std::int64_t i) {
    const std::int64_t local = i - 371, e = i < kDecayEnd ? i : local / 37 * 111 + 74 + local % 37;
    const auto words = rounding_words(key, i < kDecayEnd ? 11 : 12, what, e / 8);
    return words[static_cast<std::size_t>(e % 8 / 2)] >> (e % 2 * 16);
  }

  static Floats squares(std::uint64_t seed) {
    Floats out = random_floats(kCount, seed);
    for (float& x : out) x *= x;
    return out;
  }
  Update* on_device() const { return reinterpret_cast<Update*>(update.tensor.data<float>()); }
  /// The update as prepare_update leaves it: squares of 9 at a loss scale of 2 are a norm of 1.5.
  Update prepare(Update values) {
    queue.copy(on_device(), &values, sizeof values);
    const PrepareUpdateArgs args{on_device(), square_sums.tensor.data<double>(), kSquares,
                                 losses.tensor.data<double>(), 2};
    check(ops.prepare_update(&args, queue.state()));
    queue.copy(&values, on_device(), sizeof values);
    queue.synchronize();
    return values;
  }
  UpdateElementsArgs elements(UpdateRule rule) const {
    const bool narrow = p.tensor.dtype() == DType::kBF16;
    return {rule,          values(p),  values(g),
            values(s1),    values(s2), narrow ? FlatValues() : values(weights),
            pieces.data(), 2,          on_device()};
  }
  void change(const UpdateElementsArgs& args) const {
    check(ops.update_elements(&args, queue.state()));
  }
  void average(const DeviceCopy& mean, const Update* from) const {
    const UpdateAverageArgs args{values(mean), values(p), pieces.data(), 2, 0.75f, 0.25f, from};
    check(ops.update_average(&args, queue.state()));
  }
  static FlatValues values(const DeviceCopy& x) { return {x.tensor.raw(), x.tensor.dtype()}; }
};

Update some_update() {
  return {.loss_scale = 2,
          .clip = 1,
          .tokens = 16,
          .lr = 0.1f,
          .weight_decay = 0.3f,
          .beta1 = 0.8f,
          .beta2 = 0.9f,
          .eps = 0.01f,
          .one_minus_beta1 = 0.2f,
          .one_minus_beta2 = 0.1f,
          .inverse_bc1 = 1.5f,
          .inverse_sqrt_bc2 = 1.25f,
          .momentum = 0.7f,
          .one_minus_dampening = 0.6f,
          .halt_on_nonfinite = 0,
          .loss = 0,
          .norm = 0,
          .gradient_factor = 0,
          .skip = 0,
          .halted = 0};
}

/// One element by the formulas of hgtrain/optim/optimizer.h.
struct Reference {
  double p, g, s1, s2;

  void apply(UpdateRule rule, const Update& u, double decay) {
    const double lr = u.lr, decayed = g + decay * p;
    switch (rule) {
      case UpdateRule::kAdamW:
      case UpdateRule::kAdam: {
        const double gradient = rule == UpdateRule::kAdam ? decayed : g;
        s1 = u.beta1 * s1 + u.one_minus_beta1 * gradient;
        s2 = u.beta2 * s2 + u.one_minus_beta2 * gradient * gradient;
        const double own = rule == UpdateRule::kAdam ? 0 : decay * p;
        p -= lr * (s1 * u.inverse_bc1 / (std::sqrt(s2) * u.inverse_sqrt_bc2 + u.eps) + own);
        return;
      }
      case UpdateRule::kLion: {
        const double direction = u.beta1 * s1 + u.one_minus_beta1 * g;
        p = p * (1 - lr * decay) - lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
        s1 = u.beta2 * s1 + u.one_minus_beta2 * g;
        return;
      }
      case UpdateRule::kAdagrad:
        s1 += decayed * decayed;
        p -= lr * decayed / (std::sqrt(s1) + u.eps);
        return;
      case UpdateRule::kSgd:
        p -= lr * decayed;
        return;
      case UpdateRule::kMomentum:
      case UpdateRule::kNesterov:
        s1 = u.momentum * s1 + u.one_minus_dampening * decayed;
        p -= lr * (rule == UpdateRule::kNesterov ? decayed + u.momentum * s1 : s1);
    }
  }
};

}  // namespace

TEST_CASE("CUDA: an update's factor clips the norm, and what is not finite is skipped",
          "[update]") {
  if (module_with_device() == nullptr) return;
  Updated buffers;
  const Update clipped = buffers.prepare(some_update());
  CHECK(clipped.norm == 1.5);
  CHECK(clipped.gradient_factor == static_cast<float>(1 / (1.5 + 1e-6) / 2));
  CHECK(clipped.loss == 0.25);
  CHECK(clipped.skip == 0);
  Update loose = some_update();
  loose.clip = 2;
  CHECK(buffers.prepare(loose).gradient_factor == 0.5f);
  loose.clip = 0;
  CHECK(buffers.prepare(loose).gradient_factor == 0.5f);
  double* const squares = buffers.square_sums.tensor.data<double>();
  double* const losses = buffers.losses.tensor.data<double>();
  for (double* const at : {squares + 1000, losses}) {
    const double before = at == losses ? 1 : 9.0 / Updated::kSquares;
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      buffers.queue.copy(at, &bad, sizeof bad);
      loose.halt_on_nonfinite = 0;
      CHECK(buffers.prepare(loose).skip == 1);
      CHECK(buffers.prepare(loose).halted == 0);
      loose.halt_on_nonfinite = 1;
      CHECK(buffers.prepare(loose).halted == 1);
    }
    buffers.queue.copy(at, &before, sizeof before);
  }

  CHECK(buffers.prepare(loose).skip == 0);
  loose.halted = 1;
  CHECK(buffers.prepare(loose).skip == 1);

  const Operand p = buffers.p.read(), average = buffers.s1.read();
  const double bad = HUGE_VAL;
  buffers.queue.copy(squares, &bad, sizeof bad);
  buffers.prepare(loose);
  const UpdateElementsArgs args = buffers.elements(UpdateRule::kAdamW);
  buffers.change(args);
  buffers.average(buffers.s1, args.update);
  CHECK(buffers.p.read().bytes == p.bytes);
  CHECK(buffers.s1.read().bytes == average.bytes);
}

TEST_CASE("CUDA: every optimizer follows its formula and rounds the weights", "[update]") {
  if (module_with_device() == nullptr) return;
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kNesterov); ++rule) {
    INFO("rule " << rule);
    Updated buffers;
    const Update update = buffers.prepare(some_update());
    const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                 s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
    UpdateElementsArgs args = buffers.elements(static_cast<UpdateRule>(rule));
    buffers.change(args);
    Doubles expected_p, expected_s1, expected_s2;
    for (std::size_t i = 0; i < p.size(); ++i) {
      Reference element{p[i], static_cast<double>(g[i]) * update.gradient_factor, s1[i], s2[i]};
      element.apply(args.rule, update,
                    static_cast<std::int64_t>(i) < Updated::kDecayEnd ? update.weight_decay : 0);
      expected_p.push_back(element.p);
      expected_s1.push_back(element.s1);
      expected_s2.push_back(element.s2);
    }
    const Floats updated = buffers.p.read().floats();
    CHECK(error_of(updated, expected_p) < 2e-6);
    CHECK(error_of(buffers.s1.read().floats(), expected_s1) < 2e-6);
    CHECK(error_of(buffers.s2.read().floats(), expected_s2) < 2e-6);
    CHECK(buffers.weights.read().bytes == floats(updated, {Updated::kCount}, DType::kBF16).bytes);

    buffers.average(buffers.s2, nullptr);
    for (std::size_t i = 0; i < p.size(); ++i)
      expected_s2[i] = 0.75 * expected_s2[i] + 0.25 * expected_p[i];
    CHECK(error_of(buffers.s2.read().floats(), expected_s2) < 2e-6);

    args.weights = {};  // training in fp32
    buffers.change(args);
    CHECK(buffers.weights.read().bytes == floats(updated, {Updated::kCount}, DType::kBF16).bytes);
    CHECK(buffers.p.read().floats() != updated);
  }
}

TEST_CASE("CUDA: parameters and state of bf16 are rounded by the numbers of their elements",
          "[update]") {
  if (module_with_device() == nullptr) return;
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kNesterov); ++rule)
    for (const DType states : {DType::kF32, DType::kBF16}) {
      INFO("rule " << rule << ", states of " << name_of(states));
      Updated buffers(DType::kBF16, states);
      Update chosen = some_update();
      chosen.rounding_key = 0x123456789abcdef0;
      const Update update = buffers.prepare(chosen);
      const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                   s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
      const UpdateElementsArgs args = buffers.elements(static_cast<UpdateRule>(rule));
      buffers.change(args);
      const Floats new_p = buffers.p.read().floats(), new_s1 = buffers.s1.read().floats(),
                   new_s2 = buffers.s2.read().floats();
      int other = 0;  // a different last bit of fp32 may round differently
      const auto expect = [&](double exact, float actual, DType type, Rounded what, std::size_t i) {
        const float x = static_cast<float>(exact);
        if (type == DType::kF32) {
          REQUIRE(std::abs(actual - x) < 2e-6 * (1 + std::abs(x)));
          return;
        }
        REQUIRE(
            (actual == round_stochastically(x, 0) || actual == round_stochastically(x, 0xffff)));
        const std::uint32_t number =
            Updated::rounding_number(update.rounding_key, what, static_cast<std::int64_t>(i));
        if (actual != round_stochastically(x, number)) ++other;
      };
      for (std::size_t i = 0; i < p.size(); ++i) {
        Reference element{p[i], static_cast<double>(g[i]) * update.gradient_factor, s1[i], s2[i]};
        element.apply(args.rule, update,
                      static_cast<std::int64_t>(i) < Updated::kDecayEnd ? update.weight_decay : 0);
        expect(element.p, new_p[i], DType::kBF16, Rounded::kParameter, i);
        if (element.s1 != s1[i]) expect(element.s1, new_s1[i], states, Rounded::kState1, i);
        if (element.s2 != s2[i]) expect(element.s2, new_s2[i], states, Rounded::kState2, i);
      }
      CHECK(other < 10);

      buffers.average(buffers.g, nullptr);
      const Floats average = buffers.g.read().floats();
      for (std::size_t i = 0; i < p.size(); ++i)
        REQUIRE(average[i] == Approx(0.75 * g[i] + 0.25 * new_p[i]).margin(1e-6));
    }
}

TEST_CASE("CUDA: Lamb's update is scaled by the norms of its tensor", "[update]") {
  if (module_with_device() == nullptr) return;
  for (const bool inside : {false, true}) {
    const double lowest = inside ? 0.01 : 0.5, highest = inside ? 100 : 1.1;
    Updated buffers;
    Update asked = some_update();
    if (inside) asked.eps = 0;  // harmless if a piece ends within a thread's elements
    const Update u = buffers.prepare(asked);
    const std::vector<FlatPiece> pieces = {{0, 300, 0, 0, 0, 0, 1},
                                           {300, 400, 300, 0, 1, 0, 1},
                                           {400, 800, 400, 0, 2, 1, 0},
                                           {801, 1003, 801, 0, 3, 2, 0}};
    const std::int64_t first_pieces[] = {0, 2, 3, 4};
    const Floats p = buffers.p.read().floats(), g = buffers.g.read().floats(),
                 s1 = buffers.s1.read().floats(), s2 = buffers.s2.read().floats();
    const PiecesOnDevice on_device(buffers.queue, pieces);
    const DeviceCopy firsts(buffers.queue, normal({sizeof first_pieces / 4}, 1)),
        parts(buffers.queue, stored<double>(Doubles(8), {8}, DType::kF64));
    buffers.queue.copy(firsts.tensor.data<float>(), first_pieces, sizeof first_pieces);
    const UpdateElementsArgs like = buffers.elements(UpdateRule::kAdamW);
    const UpdateLambArgs args{like.parameters,
                              like.gradients,
                              like.state1,
                              like.state2,
                              like.weights,
                              on_device.data(),
                              4,
                              parts.tensor.data<double>(),
                              4,
                              reinterpret_cast<const std::int64_t*>(firsts.tensor.data<float>()),
                              3,
                              static_cast<float>(lowest),
                              static_cast<float>(highest),
                              inside,
                              like.update};
    check(buffers.ops.prepare_lamb(&args, buffers.queue.state()));
    check(buffers.ops.update_lamb(&args, buffers.queue.state()));

    Doubles expected = doubles(p), changes(p.size());
    double weight[3] = {}, change[3] = {};
    for (const FlatPiece& piece : pieces)
      for (auto i = static_cast<std::size_t>(piece.begin); static_cast<std::int64_t>(i) < piece.end;
           ++i) {
        const double gradient = static_cast<double>(g[i]) * u.gradient_factor;
        const double m = u.beta1 * s1[i] + u.one_minus_beta1 * gradient,
                     v = u.beta2 * s2[i] + u.one_minus_beta2 * gradient * gradient;
        changes[i] = m / (inside ? std::sqrt(v + u.eps) : std::sqrt(v) + u.eps) +
                     (piece.decay != 0 ? u.weight_decay * p[i] : 0.0);
        weight[piece.tensor] += expected[i] * expected[i];
        change[piece.tensor] += changes[i] * changes[i];
      }
    for (const FlatPiece& piece : pieces)
      for (auto i = static_cast<std::size_t>(piece.begin); static_cast<std::int64_t>(i) < piece.end;
           ++i)
        expected[i] -=
            u.lr * changes[i] *
            std::clamp(std::sqrt(weight[piece.tensor] / change[piece.tensor]), lowest, highest);
    const Floats updated = buffers.p.read().floats();
    CHECK(error_of(updated, expected) < 4e-6);
    CHECK(updated[800] == p[800]);  // belongs to no tensor
    const Floats rounded = floats(updated, {Updated::kCount}, DType::kBF16).floats();
    const Floats weights = buffers.weights.read().floats();
    CHECK((weights[0] == rounded[0] && weights[799] == rounded[799] &&
           weights[1002] == rounded[1002]));
  }
}
