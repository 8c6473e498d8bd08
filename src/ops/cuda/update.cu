// The optimizers over flat buffers. The formulas are those of the CPU, in src/optim.

#include "hgtrain/base/stochastic_rounding.h"

#include "kernel.h"

namespace hgt::cuda {
namespace {

__global__ void find_factor(PrepareUpdateArgs args) {
  Update& u = *args.update;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = 0; i < args.loss_count; ++i) sum += args.losses[i];
  u.loss = sum / u.tokens;
  const double norm = sqrt(*args.squares) / u.loss_scale;
  double factor = 1;
  if (u.clip > 0 && u.clip / (norm + 1e-6) < 1) factor = u.clip / (norm + 1e-6);
  u.norm = norm;
  u.gradient_factor = static_cast<float>(factor / u.loss_scale);
  const bool finite = norm < INFINITY && fabs(u.loss) < INFINITY;
  if (!finite) u.halted = u.halt_on_nonfinite;
  u.skip = finite && u.halted == 0 ? 0 : 1;
}

/// An element during its update; `weight_decay` is that of its group.
struct Element {
  float p, g, s1, s2, weight_decay;
};

// Each rule changes p and the state that it has.
template <bool decoupled>
struct Adam {
  static constexpr int kStates = 2;
  __device__ static void apply(const Update& u, Element& e) {
    if (!decoupled) e.g += e.weight_decay * e.p;
    e.s1 = u.beta1 * e.s1 + u.one_minus_beta1 * e.g;
    e.s2 = u.beta2 * e.s2 + u.one_minus_beta2 * e.g * e.g;
    float change = e.s1 * u.inverse_bc1 / (sqrtf(e.s2) * u.inverse_sqrt_bc2 + u.eps);
    if (decoupled) change += e.weight_decay * e.p;
    e.p -= u.lr * change;
  }
};

struct Lion {
  static constexpr int kStates = 1;
  __device__ static void apply(const Update& u, Element& e) {
    const float direction = u.beta1 * e.s1 + u.one_minus_beta1 * e.g;
    const float sign = (direction > 0 ? 1.0f : 0.0f) - (direction < 0 ? 1.0f : 0.0f);
    e.p = e.p * (1 - u.lr * e.weight_decay) - u.lr * sign;
    e.s1 = u.beta2 * e.s1 + u.one_minus_beta2 * e.g;
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  __device__ static void apply(const Update& u, Element& e) {
    const float gradient = e.g + e.weight_decay * e.p;
    e.s1 += gradient * gradient;
    e.p -= u.lr * gradient / (sqrtf(e.s1) + u.eps);
  }
};

struct Sgd {
  static constexpr int kStates = 0;
  __device__ static void apply(const Update& u, Element& e) {
    e.p -= u.lr * (e.g + e.weight_decay * e.p);
  }
};

template <bool nesterov>
struct Momentum {
  static constexpr int kStates = 1;
  __device__ static void apply(const Update& u, Element& e) {
    const float gradient = e.g + e.weight_decay * e.p;
    e.s1 = u.momentum * e.s1 + u.one_minus_dampening * gradient;
    e.p -= u.lr * (nesterov ? gradient + u.momentum * e.s1 : e.s1);
  }
};

/// Writes elements back to their places, bf16 stochastically rounded.
template <class T, int N>
__device__ void write_back(Floats<N>& elements, void* flat, std::int64_t first, std::int64_t count,
                           std::uint64_t key, Rounded what) {
  if constexpr (!std::is_same_v<T, float>) {
    static_assert(N == kRoundedByCounter);
    const auto words = rounding_words(key, what, first / N);
#pragma unroll
    for (int i = 0; i < N; ++i)
      elements.x[i] = round_stochastically(elements.x[i], words[i / 2] >> (i % 2 * 16));
  }
  elements.template write<T>(flat, first, count);
}

/// P, S and W are the types of the parameters, of the state, and of the weights written besides
/// fp32 parameters: float if none are written.
template <class Rule, class P, class S, class W>
__global__ void change_elements(UpdateElementsArgs args) {
  constexpr int kElements = kLongerVector<P, W>;
  const std::int64_t at = args.begin + first_of_thread(kElements), left = args.end - at;
  const Update& u = *args.update;
  if (left <= 0 || u.skip != 0) return;
  constexpr bool kOne = Rule::kStates > 0, kTwo = Rule::kStates > 1;
  Floats<kElements> p, g, s1, s2;
  p.template read<P>(args.parameters, at, left);
  g.template read<float>(args.gradients, at, left);
  if constexpr (kOne) s1.template read<S>(args.state1, at, left);
  if constexpr (kTwo) s2.template read<S>(args.state2, at, left);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    Element e{p.x[i], g.x[i] * u.gradient_factor, s1.x[i], s2.x[i],
              args.decays ? u.weight_decay : 0.0f};
    Rule::apply(u, e);
    p.x[i] = e.p;
    s1.x[i] = e.s1;
    s2.x[i] = e.s2;
  }
  write_back<P>(p, args.parameters, at, left, u.rounding_key, Rounded::kParameter);
  if constexpr (kOne) write_back<S>(s1, args.state1, at, left, u.rounding_key, Rounded::kState1);
  if constexpr (kTwo) write_back<S>(s2, args.state2, at, left, u.rounding_key, Rounded::kState2);
  if constexpr (!std::is_same_v<W, float>) p.template write<W>(args.weights, at, left);
}

template <class Rule, class P, class S, class W>
void change(const UpdateElementsArgs& args, CudaStreamState& stream) {
  launch(change_elements<Rule, P, S, W>, elements_shape(args.end - args.begin, kLongerVector<P, W>),
         stream, args);
}

template <class Fn>
void visit_rule(UpdateRule rule, const Fn& fn) {
  switch (rule) {
    case UpdateRule::kAdamW:
      return fn(Adam<true>());
    case UpdateRule::kAdam:
      return fn(Adam<false>());
    case UpdateRule::kLion:
      return fn(Lion());
    case UpdateRule::kAdagrad:
      return fn(Adagrad());
    case UpdateRule::kSgd:
      return fn(Sgd());
    case UpdateRule::kMomentum:
      return fn(Momentum<false>());
    case UpdateRule::kNesterov:
      return fn(Momentum<true>());
  }
}

constexpr unsigned kPieceThreads = 512;

struct LambArgs {
  UpdateLambArgs op;
  double* squares;  ///< [piece][weights, changes]
  float* ratios;    ///< [tensor]
};

__device__ float change_of(const LambArgs& args, const LambPiece& piece, float p, float m,
                           float v) {
  const Update& u = *args.op.update;
  const float root = args.op.eps_inside_sqrt ? sqrtf(v + u.eps) : sqrtf(v) + u.eps;
  return m / root + (piece.decay != 0 ? u.weight_decay : 0.0f) * p;
}

// One block per piece.
__global__ void lamb_moments(LambArgs args) {
  const UpdateLambArgs& op = args.op;
  const Update& u = *op.update;
  if (u.skip != 0) return;
  const LambPiece piece = op.pieces[blockIdx.x];
  constexpr int kElements = kVector<float>;
  double squares[2] = {};
  for (std::int64_t at = piece.begin + threadIdx.x * kElements; at < piece.end;
       at += blockDim.x * kElements) {
    const std::int64_t left = piece.end - at;
    Floats<kElements> p, g, m, v;
    p.read<float>(op.parameters, at, left);
    g.read<float>(op.gradients, at, left);
    m.read<float>(op.exp_avg, at, left);
    v.read<float>(op.exp_avg_sq, at, left);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i >= left) break;  // would be 0 / 0 if eps is 0
      const float gradient = g.x[i] * u.gradient_factor;
      m.x[i] = u.beta1 * m.x[i] + u.one_minus_beta1 * gradient;
      v.x[i] = u.beta2 * v.x[i] + u.one_minus_beta2 * gradient * gradient;
      const double weight = p.x[i], change = change_of(args, piece, p.x[i], m.x[i], v.x[i]);
      squares[0] += weight * weight;
      squares[1] += change * change;
    }
    m.write<float>(op.exp_avg, at, left);
    v.write<float>(op.exp_avg_sq, at, left);
  }
  block_sums(squares);
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) args.squares[2 * blockIdx.x + i] = squares[i];
}

// One thread per tensor: it adds the pieces in order.
__global__ void lamb_ratios(LambArgs args) {
  const UpdateLambArgs& op = args.op;
  const std::int64_t tensor = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (tensor >= op.tensors || op.update->skip != 0) return;
  double weight = 0, change = 0;
  for (std::int64_t i = op.first_pieces[tensor]; i < op.first_pieces[tensor + 1]; ++i) {
    weight += args.squares[2 * i];
    change += args.squares[2 * i + 1];
  }
  const float ratio = static_cast<float>(sqrt(weight / change));
  args.ratios[tensor] =
      weight == 0 || change == 0 ? 1.0f : fminf(fmaxf(ratio, op.min_coeff), op.max_coeff);
}

template <class T>
__global__ void lamb_change(LambArgs args) {
  const UpdateLambArgs& op = args.op;
  if (op.update->skip != 0) return;
  const LambPiece piece = op.pieces[blockIdx.x];
  const float rate = op.update->lr * args.ratios[piece.tensor];
  for (std::int64_t at = piece.begin + threadIdx.x * kVector<T>; at < piece.end;
       at += blockDim.x * kVector<T>) {
    const std::int64_t left = piece.end - at;
    Floats<kVector<T>> p, m, v;
    p.template read<float>(op.parameters, at, left);
    m.template read<float>(op.exp_avg, at, left);
    v.template read<float>(op.exp_avg_sq, at, left);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      p.x[i] -= rate * change_of(args, piece, p.x[i], m.x[i], v.x[i]);
    p.template write<float>(op.parameters, at, left);
    if constexpr (!std::is_same_v<T, float>) p.template write<T>(op.weights, at, left);
  }
}

/// T is the type of the values.
template <class T>
__global__ void average_elements(UpdateAverageArgs args) {
  const std::int64_t at = first_of_thread<T>(), left = args.count - at;
  if (left <= 0 || (args.update && args.update->skip != 0)) return;
  Floats<kVector<T>> average, values;
  average.template read<float>(args.average, at, left);
  values.template read<T>(args.values, at, left);
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    average.x[i] = args.decay_factor * average.x[i] + args.one_minus_decay * values.x[i];
  average.template write<float>(args.average, at, left);
}

/// The type of the weights that are written besides the parameters; fp32: none are.
DType written_type(const void* weights, DType type) {
  return weights ? type : DType::kF32;
}

}  // namespace

void prepare_update(const PrepareUpdateArgs& args, CudaStreamState& stream) {
  launch(find_factor, {{1}, {1}}, stream, args);
}

void update_elements(const UpdateElementsArgs& args, CudaStreamState& stream) {
  const bool narrow = args.parameter_type == DType::kBF16;
  visit_rule(args.rule, [&]<class Rule>(Rule) {
    if constexpr (Rule::kStates > 0)
      if (narrow && args.state_type == DType::kBF16)
        return change<Rule, __nv_bfloat16, __nv_bfloat16, float>(args, stream);
    if (narrow) return change<Rule, __nv_bfloat16, float, float>(args, stream);
    visit_element(written_type(args.weights, args.weight_type),
                  [&]<class W>(W) { change<Rule, float, float, W>(args, stream); });
  });
}

void update_lamb(const UpdateLambArgs& args, CudaStreamState& stream) {
  double* const squares = stream.scratch<double>(2 * args.piece_count + args.tensors);
  const LambArgs lamb{args, squares, reinterpret_cast<float*>(squares + 2 * args.piece_count)};
  const LaunchShape pieces{{blocks_for(args.piece_count, 1)}, {kPieceThreads}};
  launch(lamb_moments, pieces, stream, lamb);
  launch(lamb_ratios, {{blocks_for(args.tensors, kWarp)}, {kWarp}}, stream, lamb);
  visit_element(written_type(args.weights, args.type),
                [&]<class T>(T) { launch(lamb_change<T>, pieces, stream, lamb); });
}

void update_average(const UpdateAverageArgs& args, CudaStreamState& stream) {
  if (args.type == DType::kBF16)
    launch(average_elements<__nv_bfloat16>, vectors_shape<__nv_bfloat16>(args.count), stream, args);
  else
    launch(average_elements<float>, vectors_shape<float>(args.count), stream, args);
}

}  // namespace hgt::cuda
