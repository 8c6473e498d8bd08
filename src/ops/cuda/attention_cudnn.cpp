#include "attention_cudnn.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdio>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

// The frontend needs these functions for its own kernels, which are not used, so nothing links
// their compiler.
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetErrorString
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/unique_handle.h"

// A graph of one node, scaled dot product attention, which cuDNN compiles into a plan of kernels.
// Plans are kept by shape, because cuDNN takes up to seconds to build one.
//
// cuDNN's statistics are lse: the natural logarithm of the sum of exp(scaled scores), fp32.

namespace hgt {
namespace {

namespace graph = cudnn_frontend::graph;
using cudnn_frontend::DataType_t;

using Handle = UniqueHandle<cudnnHandle_t, cudnnDestroy>;
using Tensor = std::shared_ptr<graph::Tensor_attributes>;

void require(cudnn_frontend::error_t status) {
  if (status.is_bad()) throw Error(ErrorKind::kDevice, "cuDNN: " + status.get_message());
}
void require(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(ErrorKind::kDevice, fmt::format("cuDNN: {}", cudnnGetErrorString(status)));
}

enum Operand : std::int64_t { kQ, kK, kV, kOut, kDOut, kDQ, kDK, kDV, kLse, kOperands };

/// All that decides how cuDNN computes an op: its sizes and the strides of its operands.
struct Shape {
  bool backward;
  DType type;
  std::int64_t batch, length, heads, key_heads, width, window;
  float scale;
  std::array<std::array<std::int64_t, 3>, kLse> strides;  ///< of batch, heads, positions
  auto operator<=>(const Shape&) const = default;
};

/// The operands of an op, indexed by Operand.
using Memory = std::array<void*, kOperands>;

struct Op {
  Shape shape;
  Memory memory{};

  template <class T>
  void add(Operand name, const Heads<T>& x) {
    memory[name] = const_cast<void*>(x.data);
    shape.strides[name] = {x.batch_stride, x.head_stride, x.position_stride};
  }
};

Op op_of(const AttentionArgs& a) {
  Op op{{false, a.type, a.batch, a.queries, a.heads, a.key_heads, a.width, a.window, a.scale, {}}};
  op.add(kQ, a.q);
  op.add(kK, a.k);
  op.add(kV, a.v);
  op.add(kOut, a.out);
  op.memory[kLse] = a.lse;
  return op;
}

Op op_of(const AttentionBwdArgs& a) {
  Op op{{true, a.type, a.batch, a.queries, a.heads, a.key_heads, a.width, a.window, a.scale, {}}};
  op.add(kQ, a.q);
  op.add(kK, a.k);
  op.add(kV, a.v);
  op.add(kOut, a.out);
  op.add(kDOut, a.dout);
  op.add(kDQ, a.dq);
  op.add(kDK, a.dk);
  op.add(kDV, a.dv);
  op.memory[kLse] = const_cast<float*>(a.lse);
  return op;
}

bool is_of_keys(Operand name) {
  return name == kK || name == kV || name == kDK || name == kDV;
}

/// Builds the graph of the part of an op that one launch computes, for the current device or one
/// that is not present.
class GraphOf {
 public:
  GraphOf(const Shape& shape, const CudnnOptions& options,
          const cudnn::AbsentDevice* device = nullptr)
      : shape_(shape), options_(options), part_(cudnn::attention_part(shape, options)) {
    if (device != nullptr) set_device(*device);
    graph_.set_io_data_type(shape.type == DType::kBF16 ? DataType_t::BFLOAT16 : DataType_t::HALF)
        .set_intermediate_data_type(DataType_t::FLOAT)
        .set_compute_data_type(DataType_t::FLOAT);
    shape.backward ? add_backward() : add_forward();
  }
  graph::Graph take() && { return std::move(graph_); }

 private:
  void set_device(const cudnn::AbsentDevice& device) {
    const auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
    require(properties->deserialize({device.json.begin(), device.json.end()}));
    graph_.set_device_properties(properties).set_sm_version(device.sm);
  }
  graph::Tensor_attributes attributes(Operand name) const {
    const std::int64_t heads = is_of_keys(name) ? part_.key_heads : part_.heads(shape_);
    const auto [batch, head, position] = shape_.strides[name];
    return graph::Tensor_attributes()
        .set_uid(name)
        .set_dim({part_.samples, heads, shape_.length, shape_.width})
        .set_stride({batch, head, position, 1});
  }
  /// [B, H, T], of all heads or of one sample: without gaps in both cases.
  graph::Tensor_attributes lse() const {
    const std::int64_t heads = part_.heads(shape_);
    return graph::Tensor_attributes()
        .set_uid(kLse)
        .set_data_type(DataType_t::FLOAT)
        .set_dim({part_.samples, heads, shape_.length, 1})
        .set_stride({heads * shape_.length, shape_.length, 1, 1});
  }
  Tensor input(Operand name) { return graph_.tensor(attributes(name)); }

  static void write(const Tensor& to, const graph::Tensor_attributes& as) {
    to->set_output(true).set_uid(as.get_uid()).set_dim(as.get_dim()).set_stride(as.get_stride());
    to->set_data_type(as.get_data_type());
  }

  /// A query sees itself and the `window - 1` keys before it.
  template <class Node>
  Node masked(Node node) const {
    node.set_attn_scale(shape_.scale)
        .set_diagonal_alignment(cudnn_frontend::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    if (shape_.window > 0)
      node.set_diagonal_band_left_bound(static_cast<int>(std::min(shape_.window, shape_.length)));
    return node;
  }

  void add_forward() {
    const auto node = masked(graph::SDPA_attributes()).set_generate_stats(true);
    const auto [out, stats] = graph_.sdpa(input(kQ), input(kK), input(kV), node);
    write(out, attributes(kOut));
    write(stats, lse());
  }
  void add_backward() {
    const auto node = masked(graph::SDPA_backward_attributes())
                          .set_deterministic_algorithm(options_.deterministic);
    const auto [dq, dk, dv] = graph_.sdpa_backward(input(kQ), input(kK), input(kV), input(kOut),
                                                   input(kDOut), graph_.tensor(lse()), node);
    write(dq, attributes(kDQ));
    write(dk, attributes(kDK));
    write(dv, attributes(kDV));
  }

  const Shape& shape_;
  const CudnnOptions options_;
  const cudnn::AttentionPart part_;
  graph::Graph graph_;
};

struct Plan {
  cudnn::AttentionPart part;
  graph::Graph graph;
  std::int64_t workspace_bytes;
};

/// Throws unless there is such an algorithm on the device of the handle or, if the handle is null,
/// on that of the graph's own properties.
void require_support(graph::Graph& graph, bool deterministic, cudnnHandle_t handle) {
  require(graph.validate());
  require(graph.build_operation_graph(handle));
  require(graph.create_execution_plans({cudnn_frontend::HeurMode_t::A}));
  if (deterministic)
    graph.deselect_numeric_notes({cudnn_frontend::NumericalNote_t::NONDETERMINISTIC});
  require(graph.check_support());
}

Plan make_plan(const Shape& shape, const CudnnOptions& options, cudnnHandle_t handle) {
  Plan plan{cudnn::attention_part(shape, options), GraphOf(shape, options).take(), 0};
  require_support(plan.graph, options.deterministic, handle);
  require(plan.graph.build_plans());
  require(plan.graph.get_workspace_size(plan.workspace_bytes));
  return plan;
}

void* part_of(void* memory, std::int64_t elements, std::int64_t element_bytes) {
  return static_cast<std::byte*>(memory) + elements * element_bytes;
}

/// The addresses of the operands of the part that starts at this sample and key head.
std::unordered_map<std::int64_t, void*> memory_of(const Op& op, std::int64_t sample,
                                                  std::int64_t key_head) {
  const Shape& s = op.shape;
  const std::int64_t head = key_head * (s.heads / s.key_heads);
  std::unordered_map<std::int64_t, void*> out;
  for (std::int64_t at = 0; at < kLse; ++at) {
    const auto name = static_cast<Operand>(at);
    if (op.memory[name] == nullptr) continue;
    const auto [batch, head_stride, position] = s.strides[name];
    const std::int64_t first = is_of_keys(name) ? key_head : head;
    out[name] = part_of(op.memory[name], sample * batch + first * head_stride, 2);
  }
  out[kLse] = part_of(op.memory[kLse], (sample * s.heads + head) * s.length, sizeof(float));
  return out;
}

}  // namespace

struct CudnnPlans {
  CudnnOptions options;
  Handle handle;
  std::map<Shape, std::optional<Plan>> plans;  ///< none: cuDNN does not support the shape
};

namespace {

std::string text_of(const Shape& shape) {
  return fmt::format("attention{} of {} x {} tokens, {} heads of {}",
                     shape.backward ? " backward" : "", shape.batch, shape.length, shape.heads,
                     shape.width);
}

/// The plan for a shape, built if there is none yet; null if cuDNN does not support it. None is
/// built during a capture of the stream, because building allocates memory.
Plan* plan_for(const Shape& shape, CudaStreamState& stream) {
  CudnnPlans& cache = *stream.cudnn_plans;
  const auto found = cache.plans.find(shape);
  if (found != cache.plans.end()) return found->second ? &*found->second : nullptr;
  if (stream.is_captured()) return nullptr;
  std::optional<Plan>& plan = cache.plans[shape];
  try {
    plan = make_plan(shape, cache.options, cache.handle.get());
  } catch (const std::exception& error) {
    plan.reset();
    fmt::print(stderr, "{}, without cuDNN: {}\n", text_of(shape), error.what());
  }
  return plan ? &*plan : nullptr;
}

bool run(const Op& op, CudaStreamState& stream) {
  Plan* const plan = plan_for(op.shape, stream);
  if (plan == nullptr) return false;
  void* const workspace = stream.scratch<std::byte>(plan->workspace_bytes);
  for (std::int64_t sample = 0; sample < op.shape.batch; sample += plan->part.samples)
    for (std::int64_t head = 0; head < op.shape.key_heads; head += plan->part.key_heads) {
      auto memory = memory_of(op, sample, head);
      auto status = plan->graph.execute(stream.cudnn_plans->handle.get(), memory, workspace);
      if (status.is_bad())
        throw Error(ErrorKind::kDevice,
                    fmt::format("cuDNN failed at {}: {}", text_of(op.shape), status.get_message()),
                    "set hardware.cudnn to false");
    }
  return true;
}

/// cuDNN moves 16 bytes at a time.
bool is_aligned(const Memory& memory) {
  return std::ranges::all_of(
      memory, [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; });
}

/// Cases that cuDNN cannot express stay with our kernels: our dropout, documents, fp32, and queries
/// of a part of the positions. Those after a cache would need a new plan with every token.
template <class Args>
bool offered(const Args& args, const CudaStreamState& stream) {
  return stream.cudnn_plans && args.type != DType::kF32 && args.dropout.probability == 0 &&
         args.position_ids == nullptr && args.queries == args.keys;
}

graph::Graph require_support(const Shape& shape, const CudnnOptions& options,
                             const cudnn::AbsentDevice& device) {
  graph::Graph graph = GraphOf(shape, options, &device).take();
  require_support(graph, options.deterministic, nullptr);
  return graph;
}

}  // namespace

namespace cudnn {

void require_support(const AttentionArgs& args, const AbsentDevice& device) {
  hgt::require_support(op_of(args).shape, {}, device);
}
void require_support(const AttentionBwdArgs& args, const AbsentDevice& device,
                     const CudnnOptions& options) {
  hgt::require_support(op_of(args).shape, options, device);
}
void build_plan(const AttentionArgs& args, const AbsentDevice& device) {
  require(hgt::require_support(op_of(args).shape, {}, device).build_plans());
}
void build_plan(const AttentionBwdArgs& args, const AbsentDevice& device,
                const CudnnOptions& options) {
  require(hgt::require_support(op_of(args).shape, options, device).build_plans());
}

std::size_t use(void* library, const CudnnOptions& options, CudaStreamState& stream) {
  use_library(library);
  stream.use();
  int major = 0;
  HGT_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, stream.device));
  if (major < 8) throw Error(ErrorKind::kDevice, "the GPU is too old for cuDNN's attention");
  cudnnHandle_t handle = nullptr;
  require(cudnnCreate(&handle));
  auto plans = std::make_shared<CudnnPlans>();
  plans->options = options;
  plans->handle = Handle(handle);
  require(cudnnSetStream(handle, stream.use()));
  stream.cudnn_plans = std::move(plans);
  return cudnnGetVersion();
}

bool attention_fwd(const AttentionArgs& args, CudaStreamState& stream) {
  if (!offered(args, stream)) return false;
  const Op op = op_of(args);
  return is_aligned(op.memory) && run(op, stream);
}

bool attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream) {
  if (!offered(args, stream)) return false;
  const Op op = op_of(args);
  return is_aligned(op.memory) && run(op, stream);
}

}  // namespace cudnn
}  // namespace hgt
