// The optimizers over flat buffers. The formulas are those of the CPU, in src/optim.

#include "hgtrain/base/stochastic_rounding.h"

#include "kernel.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kPieceThreads = 512;

// One block, whose threads add the squares; one of them does the rest.
__global__ void __launch_bounds__(kPieceThreads) find_factor(PrepareUpdateArgs args) {
  double squares = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < args.square_count; i += blockDim.x)
    squares += args.squares[i];
  squares = block_sum(squares);
  if (threadIdx.x != 0) return;
  Update& u = *args.update;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = 0; i < args.loss_count; ++i) sum += args.losses[i];
  u.loss = sum / u.tokens;
  const double norm = sqrt(squares) / u.loss_scale;
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

/// The elements of a piece that a thread changes: `count` from the piece's element `first` on.
struct Part {
  FlatPiece piece;
  std::int64_t first, count;

  template <class T, int N>
  __device__ void read(const FlatValues& flat, Floats<N>& elements) const {
    elements.template read<T>(flat.data, flat.place(piece) + first, count);
  }
  template <class T, int N>
  __device__ void write(const FlatValues& flat, const Floats<N>& elements) const {
    elements.template write<T>(flat.data, flat.place(piece) + first, count);
  }
};

/// Writes elements back to their places, bf16 stochastically rounded.
template <class T, int N>
__device__ void write_back(const Part& part, const FlatValues& flat, Floats<N>& elements,
                           std::uint64_t key, Rounded what) {
  if constexpr (!std::is_same_v<T, float>) {
    static_assert(kRoundedByCounter % N == 0);
    WholeElement whole(part.piece, part.first);
    std::int64_t counter = whole.index / kRoundedByCounter;
    auto words = rounding_words(key, part.piece.stream, what, counter);
    if (whole.index % N == 0 &&
        whole.run >= N) {  // all have the same counter, as almost everywhere
      const std::int64_t first = N < kRoundedByCounter ? whole.index : 0;
#pragma unroll
      for (int i = 0; i < N; ++i)
        elements.x[i] = round_stochastically(elements.x[i], rounding_number(words, first + i));
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (whole.index / kRoundedByCounter != counter) {
          counter = whole.index / kRoundedByCounter;
          words = rounding_words(key, part.piece.stream, what, counter);
        }
        elements.x[i] = round_stochastically(elements.x[i], rounding_number(words, whole.index));
        whole.advance(part.piece, 1);
      }
    }
  }
  part.template write<T>(flat, elements);
}

/// The part of a thread if a row of the grid is a piece, whose elements lie `elements` to a thread.
__device__ Part part_of_thread(const FlatPiece* pieces, int elements) {
  const FlatPiece piece = pieces[blockIdx.x];
  const std::int64_t first = (blockIdx.y * blockDim.x + threadIdx.x) * elements;
  return {piece, first, piece.end - piece.begin - first};
}
LaunchShape parts_shape(std::int64_t pieces, int elements) {
  return {{blocks_for(pieces, 1), blocks_for(FlatPiece::kMaxElements, kBlockThreads, elements)},
          {kBlockThreads}};
}

/// P, S and W are the types of the parameters, of the state, and of the weights written besides
/// fp32 parameters: float if none are written.
template <class Rule, class P, class S, class W>
__global__ void __launch_bounds__(kBlockThreads) change_elements(UpdateElementsArgs args) {
  constexpr int kElements = kLongerVector<P, W>;
  const Part part = part_of_thread(args.pieces, kElements);
  const Update& u = *args.update;
  if (part.count <= 0 || u.skip != 0) return;
  constexpr bool kOne = Rule::kStates > 0, kTwo = Rule::kStates > 1;
  Floats<kElements> p, g, s1, s2;
  part.read<P>(args.parameters, p);
  part.read<float>(args.gradients, g);
  if constexpr (kOne) part.read<S>(args.state1, s1);
  if constexpr (kTwo) part.read<S>(args.state2, s2);
  const float weight_decay = part.piece.decay != 0 ? u.weight_decay : 0.0f;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    Element e{p.x[i], g.x[i] * u.gradient_factor, s1.x[i], s2.x[i], weight_decay};
    Rule::apply(u, e);
    p.x[i] = e.p;
    s1.x[i] = e.s1;
    s2.x[i] = e.s2;
  }
  write_back<P>(part, args.parameters, p, u.rounding_key, Rounded::kParameter);
  if constexpr (kOne) write_back<S>(part, args.state1, s1, u.rounding_key, Rounded::kState1);
  if constexpr (kTwo) write_back<S>(part, args.state2, s2, u.rounding_key, Rounded::kState2);
  if constexpr (!std::is_same_v<W, float>) part.write<W>(args.weights, p);
}

template <class Rule, class P, class S, class W>
void change(const UpdateElementsArgs& args, CudaStreamState& stream) {
  launch(change_elements<Rule, P, S, W>, parts_shape(args.piece_count, kLongerVector<P, W>), stream,
         args);
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

struct LambArgs {
  UpdateLambArgs op;
  float* ratios;  ///< [tensor]
};

__device__ float change_of(const UpdateLambArgs& args, const FlatPiece& piece, float p, float m,
                           float v) {
  const Update& u = *args.update;
  const float root = args.eps_inside_sqrt ? sqrtf(v + u.eps) : sqrtf(v) + u.eps;
  return m / root + (piece.decay != 0 ? u.weight_decay : 0.0f) * p;
}

// One block per piece.
__global__ void __launch_bounds__(kPieceThreads) lamb_moments(UpdateLambArgs args) {
  const Update& u = *args.update;
  if (u.skip != 0) return;
  const FlatPiece piece = args.pieces[blockIdx.x];
  const std::int64_t count = piece.end - piece.begin;
  constexpr int kElements = kVector<float>;
  double squares[2] = {};
  for (std::int64_t at = threadIdx.x * kElements; at < count; at += blockDim.x * kElements) {
    const Part part{piece, at, count - at};
    Floats<kElements> p, g, m, v;
    part.read<float>(args.parameters, p);
    part.read<float>(args.gradients, g);
    part.read<float>(args.exp_avg, m);
    part.read<float>(args.exp_avg_sq, v);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i >= part.count) break;  // would be 0 / 0 if eps is 0
      const float gradient = g.x[i] * u.gradient_factor;
      m.x[i] = u.beta1 * m.x[i] + u.one_minus_beta1 * gradient;
      v.x[i] = u.beta2 * v.x[i] + u.one_minus_beta2 * gradient * gradient;
      const double weight = p.x[i], change = change_of(args, piece, p.x[i], m.x[i], v.x[i]);
      squares[0] += weight * weight;
      squares[1] += change * change;
    }
    part.write<float>(args.exp_avg, m);
    part.write<float>(args.exp_avg_sq, v);
  }
  block_sums(squares);
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) args.norm_parts[2 * piece.number + i] = squares[i];
}

// One thread per tensor: it adds the pieces in order.
__global__ void __launch_bounds__(kWarp) lamb_ratios(LambArgs args) {
  const UpdateLambArgs& op = args.op;
  const std::int64_t tensor = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (tensor >= op.tensors || op.update->skip != 0) return;
  double weight = 0, change = 0;
  for (std::int64_t i = op.first_pieces[tensor]; i < op.first_pieces[tensor + 1]; ++i) {
    weight += op.norm_parts[2 * i];
    change += op.norm_parts[2 * i + 1];
  }
  const float ratio = static_cast<float>(sqrt(weight / change));
  args.ratios[tensor] =
      weight == 0 || change == 0 ? 1.0f : fminf(fmaxf(ratio, op.min_coeff), op.max_coeff);
}

/// T is the type of the weights.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) lamb_change(LambArgs args) {
  const UpdateLambArgs& op = args.op;
  const Part part = part_of_thread(op.pieces, kVector<T>);
  if (part.count <= 0 || op.update->skip != 0) return;
  const float rate = op.update->lr * args.ratios[part.piece.tensor];
  Floats<kVector<T>> p, m, v;
  part.read<float>(op.parameters, p);
  part.read<float>(op.exp_avg, m);
  part.read<float>(op.exp_avg_sq, v);
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    p.x[i] -= rate * change_of(op, part.piece, p.x[i], m.x[i], v.x[i]);
  part.write<float>(op.parameters, p);
  if constexpr (!std::is_same_v<T, float>) part.write<T>(op.weights, p);
}

/// T is the type of the values.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) average_elements(UpdateAverageArgs args) {
  const Part part = part_of_thread(args.pieces, kVector<T>);
  if (part.count <= 0 || (args.update && args.update->skip != 0)) return;
  Floats<kVector<T>> average, values;
  part.read<float>(args.average, average);
  part.read<T>(args.values, values);
#pragma unroll
  for (int i = 0; i < kVector<T>; ++i)
    average.x[i] = args.decay_factor * average.x[i] + args.one_minus_decay * values.x[i];
  part.write<float>(args.average, average);
}

/// The type of the weights that are written besides the parameters; fp32: none are.
DType written_type(const FlatValues& weights) {
  return weights.data ? weights.type : DType::kF32;
}

}  // namespace

void prepare_update(const PrepareUpdateArgs& args, CudaStreamState& stream) {
  launch(find_factor, {{1}, {kPieceThreads}}, stream, args);
}

void update_elements(const UpdateElementsArgs& args, CudaStreamState& stream) {
  const bool narrow = args.parameters.type == DType::kBF16;
  visit_rule(args.rule, [&]<class Rule>(Rule) {
    if constexpr (Rule::kStates > 0)
      if (narrow && args.state1.type == DType::kBF16)
        return change<Rule, __nv_bfloat16, __nv_bfloat16, float>(args, stream);
    if (narrow) return change<Rule, __nv_bfloat16, float, float>(args, stream);
    visit_element(written_type(args.weights),
                  [&]<class W>(W) { change<Rule, float, float, W>(args, stream); });
  });
}

void prepare_lamb(const UpdateLambArgs& args, CudaStreamState& stream) {
  launch(lamb_moments, {{blocks_for(args.piece_count, 1)}, {kPieceThreads}}, stream, args);
}

void update_lamb(const UpdateLambArgs& args, CudaStreamState& stream) {
  const LambArgs lamb{args, stream.scratch<float>(args.tensors)};
  launch(lamb_ratios, {{blocks_for(args.tensors, kWarp)}, {kWarp}}, stream, lamb);
  visit_element(written_type(args.weights), [&]<class T>(T) {
    launch(lamb_change<T>, parts_shape(args.piece_count, kVector<T>), stream, lamb);
  });
}

void update_average(const UpdateAverageArgs& args, CudaStreamState& stream) {
  const auto run = [&]<class T>(T) {
    launch(average_elements<T>, parts_shape(args.piece_count, kVector<T>), stream, args);
  };
  args.values.type == DType::kBF16 ? run(__nv_bfloat16()) : run(float());
}

}  // namespace hgt::cuda
