#include "gemm_plans.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"

namespace hgt {
namespace {

constexpr int kTimes = 3;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- choices as text -----------------------------------------------------------------------

constexpr std::string_view kUnfused = "apart";  // the word in existing files
constexpr std::size_t kWordDigits = 16;         // an algorithm is cuBLAS's own few 64-bit words

std::string text_of(const std::optional<CublasAlgorithm>& algorithm) {
  if (!algorithm) return std::string(kUnfused);
  std::string text;
  for (const std::uint64_t word : algorithm->bytes.data) text += fmt::format("{:016x}", word);
  return text;
}

bool read(std::string_view text, cublasLtMatmulAlgo_t& out) {
  if (text.size() != std::size(out.data) * kWordDigits) return false;
  for (std::uint64_t& word : out.data) {
    const char* const end = text.data() + kWordDigits;
    if (std::from_chars(text.data(), end, word, 16).ptr != end) return false;
    text.remove_prefix(kWordDigits);
  }
  return true;
}

/// Whether the plan can use the choice that the text names; if so, it does from now on.
bool apply_choice(std::string_view choice, bool is_plain, GemmPlan& plan) {
  CublasAlgorithm algorithm{};
  const bool unfused = choice == kUnfused && !is_plain;
  if (!unfused && !(read(choice, algorithm.bytes) && plan.product.accepts(algorithm))) return false;
  plan.algorithm = unfused ? std::nullopt : std::optional(algorithm);
  return true;
}

// ---- timing --------------------------------------------------------------------------------

using Event = UniqueHandle<cudaEvent_t, cudaEventDestroy>;

Event make_event() {
  cudaEvent_t raw = nullptr;
  HGT_CUDA_CHECK(cudaEventCreate(&raw));
  return Event(raw);
}

/// Milliseconds from the start to the end of what `queue` queues, the fastest of a few times after
/// a first one; infinity if it says that it queues nothing.
template <class Queue>
float time_of(const CudaStreamState& stream, const Queue& queue) {
  if (!queue()) return kInfinity;
  const Event begin = make_event(), end = make_event();
  float best = kInfinity;
  for (int i = 0; i < kTimes; ++i) {
    HGT_CUDA_CHECK(cudaEventRecord(begin.get(), stream.use()));
    (void)queue();
    HGT_CUDA_CHECK(cudaEventRecord(end.get(), stream.use()));
    HGT_CUDA_CHECK(cudaEventSynchronize(end.get()));
    float ms = 0;
    HGT_CUDA_CHECK(cudaEventElapsedTime(&ms, begin.get(), end.get()));
    best = std::min(best, ms);
  }
  return best;
}

/// A product that may be run again and again, because it adds to memory of its own.
struct TuningBuffers {
  GemmArgs args;
  bool possible = true;

  TuningBuffers(const GemmArgs& real, const CudaStreamState& stream) : args(real) {
    if (stream.is_captured()) {
      possible = false;
      return;
    }
    const auto element = static_cast<std::int64_t>(size_of(real.c_type));
    if (real.beta != 0) args.c = zeros(real.m * real.ldc * element, matrix_, stream);
    if (real.epilogue == GemmEpilogue::kColumnSums) args.bias = zeros(real.n * 4, sums_, stream);
    if (real.epilogue == GemmEpilogue::kRowSums) args.bias = zeros(real.m * 4, sums_, stream);
  }

 private:
  using Memory = UniqueHandle<void*, cudaFree>;
  Memory matrix_, sums_;

  void* zeros(std::int64_t bytes, Memory& owner, const CudaStreamState& stream) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      (void)cudaGetLastError();
      possible = false;
      return nullptr;
    }
    owner = Memory(memory);
    HGT_CUDA_CHECK(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream.use()));
    return memory;
  }
};

std::optional<CublasAlgorithm> fastest(const CublasProduct& product,
                                       const std::vector<CublasAlgorithm>& candidates,
                                       const GemmArgs& args, CudaStreamState& stream) {
  float best = kInfinity;
  std::optional<CublasAlgorithm> out;
  if (!args.is_plain()) best = time_of(stream, [&] { return run_unfused(args, stream), true; });
  for (const CublasAlgorithm& candidate : candidates) {
    const float ms = time_of(stream, [&] {
      return run_fused(product, candidate, args, stream) == CUBLAS_STATUS_SUCCESS;
    });
    if (ms < best) {
      best = ms;
      out = candidate;
    }
  }
  return out;
}

GemmPlan make_plan(const GemmArgs& args, const CublasShape& shape, CudaStreamState& stream) {
  GemmPlans& plans = *stream.gemm_plans;
  GemmPlan plan{CublasProduct(plans.handle.get(), shape, args), {}};
  const std::string key = shape.text();
  const std::optional<std::string> stored =
      stream.product_timing == ProductTiming::kNone ? std::nullopt : plans.cache->find(key);
  if (stored && apply_choice(*stored, args.is_plain(), plan)) return plan;

  const bool plain = args.is_plain();
  const std::vector<CublasAlgorithm> candidates = plan.product.candidates();
  if (plain && candidates.empty())
    throw Error(ErrorKind::kDevice, "cuBLAS has no algorithm for a product").in(key);
  if (candidates.empty()) return plan;
  if (plain) plan.algorithm = candidates.front();
  if (stream.product_timing == ProductTiming::kEnded ||
      stream.product_timing == ProductTiming::kNone)
    return plan;
  const TuningBuffers tuning(args, stream);
  if (!tuning.possible) return plan;
  const auto found = fastest(plan.product, candidates, tuning.args, stream);
  if (plain && !found) return plan;  // running it fails with cuBLAS's message
  plan.algorithm = found;
  (void)apply_choice(plans.cache->keep(key, text_of(found), stored.value_or("")), plain, plan);
  return plan;
}

/// One cache for all streams of a device.
std::shared_ptr<GemmCache> cache_of(int device) {
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<GemmCache>> caches;
  const std::lock_guard lock(mutex);
  std::shared_ptr<GemmCache>& cache = caches[device];
  if (!cache) {
    cudaDeviceProp found{};
    HGT_CUDA_CHECK(cudaGetDeviceProperties(&found, device));
    cache = std::make_shared<GemmCache>(
        gemm_cache_folder(), fmt::format("{}, {} multiprocessors, cuBLASLt {}", found.name,
                                         found.multiProcessorCount, cublasLtGetVersion()));
  }
  return cache;
}

}  // namespace

GemmPlans::GemmPlans(std::shared_ptr<GemmCache> choices) : cache(std::move(choices)) {
  cublasLtHandle_t raw = nullptr;
  HGT_CUBLAS_CHECK(cublasLtCreate(&raw));
  handle = decltype(handle)(raw);
}

GemmPlans& plans_of(CudaStreamState& stream) {
  (void)stream.use();
  if (!stream.gemm_plans) {
    stream.gemm_plans = std::make_shared<GemmPlans>(cache_of(stream.device));
    stream.reserve(cuda::kProductWorkspaceBytes);
  }
  return *stream.gemm_plans;
}

GemmChoices choices_of(CudaStreamState& stream) {
  const GemmPlans& state = plans_of(stream);
  GemmChoices out;
  for (const auto& [shape, plan] : state.plans)
    if (const auto choice = state.cache->find(shape.text())) out.emplace(shape.text(), *choice);
  return out;
}

const GemmPlan& plan_of(const GemmArgs& args, CudaStreamState& stream) {
  auto& plans = plans_of(stream).plans;
  const CublasShape shape(args);
  const auto found = plans.find(shape);
  if (found != plans.end()) return found->second;
  return plans.emplace(shape, make_plan(args, shape, stream)).first->second;
}

}  // namespace hgt
