// cublasLt, in place of the real one. It knows a few algorithms, which differ in the order of their
// sums, in speed and in what they ask for, and is as strict as the documentation allows: if
// alignment, workspace or an epilogue's operands are not given, the product fails.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cuda/kernel.h"
#include "device_memory.h"
#include "device_state.h"
#include "order.h"

struct cublasLtContext {};

struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
};

struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::map<int, std::uint64_t> values = {};  ///< of the attributes that were set

  std::uint64_t get(cublasLtMatmulDescAttributes_t attribute, std::uint64_t otherwise = 0) const {
    const auto found = values.find(attribute);
    return found == values.end() ? otherwise : found->second;
  }
  template <class T>
  T* pointer(cublasLtMatmulDescAttributes_t attribute) const {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(get(attribute)));
  }
  std::uint64_t epilogue() const {
    return get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  }
};

struct cublasLtMatmulPreferenceOpaque {
  std::map<int, std::uint64_t> values = {};

  std::uint64_t get(cublasLtMatmulPreferenceAttributes_t attribute, std::uint64_t otherwise) const {
    const auto found = values.find(attribute);
    return found == values.end() ? otherwise : found->second;
  }
};

namespace hgt {
namespace {

using Product = const cublasLtMatmulDescOpaque&;
using Layout = const cublasLtMatrixLayoutOpaque&;

struct Layouts {
  Layout a, b, c, d;
};

enum Order { kForward, kBackward, kHalves };

/// A way to compute sums. Its number is its place in kAlgorithms, which is cuBLAS's own ranking.
struct Algorithm {
  Order order;
  std::uint64_t alignment;  ///< of all operands, and of the distances of their columns, in bytes
  std::uint64_t reduction;  ///< a cublasLtReductionScheme_t
  double us, us_of_many;    ///< of 64 terms and more
  bool epilogues;
  bool runs;  ///< one that does not is only found out by running it
};
constexpr Algorithm kAlgorithms[] = {
    {kForward, 2, CUBLASLT_REDUCTION_SCHEME_NONE, 4, 4, true, true},
    {kBackward, 16, CUBLASLT_REDUCTION_SCHEME_NONE, 2, 2, true, true},
    {kHalves, 4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 0, 0, true, true},
    {kBackward, 2, CUBLASLT_REDUCTION_SCHEME_NONE, 0, 0, true, false},
    {kHalves, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 6, 1, false, true},
};
constexpr std::uint64_t kMark = 0xc0b1a5;  ///< what an algorithm's data begin with

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

DType dtype_of(cudaDataType_t type) {
  return type == CUDA_R_16BF ? DType::kBF16 : type == CUDA_R_16F ? DType::kF16 : DType::kF32;
}

double get(const void* from, std::int64_t at, cudaDataType_t type) {
  double value = 0;
  cuda::visit_element(dtype_of(type), [&]<class T>(T) {
    value = static_cast<double>(cuda::to_float(static_cast<const T*>(from)[at]));
  });
  return value;
}

void put(void* to, std::int64_t at, cudaDataType_t type, double value) {
  cuda::visit_element(dtype_of(type), [&]<class T>(T) {
    cuda::store(static_cast<T*>(to) + at, static_cast<float>(value));
  });
}

bool aligned(const void* memory, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

bool on_device(const void* memory, std::size_t bytes) {
  return emulation::is_device_memory(memory) &&
         emulation::is_device_memory(static_cast<const std::byte*>(memory) + bytes - 1);
}

bool on_device(const void* memory, Layout layout) {
  const auto elements = static_cast<std::size_t>((layout.columns - 1) * layout.ld + layout.rows);
  return on_device(memory, elements * size_of(layout.type));
}

bool transposes(Product product, cublasLtMatmulDescAttributes_t attribute) {
  return product.get(attribute) == CUBLAS_OP_T;
}

/// The number of terms of each sum.
std::int64_t terms(Product product, const Layouts& x) {
  return transposes(product, CUBLASLT_MATMUL_DESC_TRANSA) ? x.a.rows : x.a.columns;
}

bool shapes_agree(Product product, const Layouts& x) {
  const auto size = [](Layout layout, bool transposed, int dim) {
    return (dim == 0) != transposed ? layout.rows : layout.columns;
  };
  const bool ta = transposes(product, CUBLASLT_MATMUL_DESC_TRANSA),
             tb = transposes(product, CUBLASLT_MATMUL_DESC_TRANSB);
  for (const Layout layout : {x.a, x.b, x.c, x.d})
    if (layout.rows < 1 || layout.columns < 1 || layout.ld < layout.rows) return false;
  return size(x.a, ta, 0) == x.d.rows && size(x.b, tb, 1) == x.d.columns &&
         size(x.a, ta, 1) == size(x.b, tb, 0) && x.c.rows == x.d.rows && x.c.columns == x.d.columns;
}

/// Whether the epilogue has its operands, and is one for these types.
bool epilogue_is_whole(Product product, const Layouts& x) {
  constexpr std::uint64_t kVector = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA,
                          kMatrix = 128;
  const std::uint64_t epilogue = product.epilogue();
  const std::uint64_t aux = product.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER),
                      ld = product.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  if ((epilogue & kVector) != 0 && product.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0)
    return false;
  return (epilogue & kMatrix) == 0 ||
         (aux != 0 && aux % 16 == 0 && ld % 8 == 0 && ld >= static_cast<std::uint64_t>(x.d.rows) &&
          x.d.type != CUDA_R_32F);
}

std::size_t workspace_of(const Algorithm& algorithm, const Layouts& x) {
  return algorithm.order == kHalves
             ? 2 * sizeof(float) * static_cast<std::size_t>(x.d.rows * x.d.columns)
             : 0;
}

cublasStatus_t support(const Algorithm& algorithm, Product product, const Layouts& x) {
  if (!shapes_agree(product, x)) return CUBLAS_STATUS_INVALID_VALUE;
  if (product.compute != CUBLAS_COMPUTE_32F || product.scale != CUDA_R_32F ||
      x.b.type != x.a.type || x.d.type != x.c.type ||
      (x.d.type != x.a.type && x.d.type != CUDA_R_32F) || !epilogue_is_whole(product, x) ||
      (product.epilogue() != CUBLASLT_EPILOGUE_DEFAULT && !algorithm.epilogues))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Layout layout : {x.a, x.b, x.d})
    if (layout.columns > 1 &&
        static_cast<std::size_t>(layout.ld) * size_of(layout.type) % algorithm.alignment != 0)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

const Algorithm* algorithm_of(const cublasLtMatmulAlgo_t& algo) {
  return algo.data[0] == kMark && algo.data[1] < std::size(kAlgorithms) ? &kAlgorithms[algo.data[1]]
                                                                        : nullptr;
}

struct Memory {
  const void *a, *b, *c;
  void* d;
};

/// An epilogue takes less than a kernel of its own, except after an odd number of terms.
double us_of(const Algorithm& algorithm, Product product, std::int64_t k) {
  const double epilogue = product.epilogue() == CUBLASLT_EPILOGUE_DEFAULT ? 0
                          : k % 2 == 0                                    ? 0.5
                                                                          : 9;
  return (k < 64 ? algorithm.us : algorithm.us_of_many) + epilogue;
}

/// An operand's elements; those of each sum follow each other.
std::vector<float> elements_of(const void* from, Layout layout, std::int64_t sums, std::int64_t k,
                               bool k_is_rows) {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(sums * k));
  for (std::int64_t i = 0; i < sums; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      out.push_back(static_cast<float>(
          get(from, k_is_rows ? i * layout.ld + l : l * layout.ld + i, layout.type)));
  return out;
}

/// The sum of the terms [begin, end) of an element.
float sum_of(const float* a, const float* b, std::int64_t begin, std::int64_t end, bool backward,
             bool rounded) {
  double sum = 0;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t k = backward ? begin + end - 1 - n : n;
    sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    if (rounded) sum = static_cast<double>(static_cast<float>(sum));
  }
  return static_cast<float>(sum);
}

float gelu(double x, bool slope) {
  const double c = std::sqrt(2 / M_PI), tanh = std::tanh(c * (x + 0.044715 * x * x * x));
  return static_cast<float>(slope ? 0.5 * (1 + tanh) +
                                        0.5 * x * (1 - tanh * tanh) * c * (1 + 3 * 0.044715 * x * x)
                                  : 0.5 * x * (1 + tanh));
}

/// What becomes of an element once its sum is known.
double finished(Product product, const Layouts& x, std::int64_t row, std::int64_t column,
                double value) {
  const std::uint64_t epilogue = product.epilogue();
  if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0)
    value += get(product.pointer<const void>(CUBLASLT_MATMUL_DESC_BIAS_POINTER), row, x.d.type);
  if ((epilogue & 128) == 0) return value;
  void* const aux = product.pointer<void>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const auto ld = static_cast<std::int64_t>(product.get(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
  if (epilogue == CUBLASLT_EPILOGUE_DGELU)
    return value * static_cast<double>(gelu(get(aux, column * ld + row, x.d.type), true));
  put(aux, column * ld + row, x.d.type, value);
  return static_cast<double>(gelu(value, false));
}

/// The sums over k of a side, which has its other dimension in d.
void sum_side(Product product, const std::vector<float>& side, std::int64_t k,
              cudaDataType_t type) {
  void* const out = product.pointer<void>(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  const auto count = static_cast<std::int64_t>(side.size()) / k;
  for (std::int64_t i = 0; i < count; ++i)
    put(out, i, type, std::accumulate(side.begin() + i * k, side.begin() + (i + 1) * k, 0.0));
}

void multiply(const Algorithm& algorithm, Product product, const Layouts& x, const Memory& at,
              float alpha, float beta, float* parts) {
  const std::int64_t k = terms(product, x), cut = algorithm.order == kHalves ? k / 2 : k;
  const bool backward = algorithm.order == kBackward, rounded = x.a.type == CUDA_R_32F;
  const std::vector<float> a = elements_of(at.a, x.a, x.d.rows, k,
                                           transposes(product, CUBLASLT_MATMUL_DESC_TRANSA)),
                           b = elements_of(at.b, x.b, x.d.columns, k,
                                           !transposes(product, CUBLASLT_MATMUL_DESC_TRANSB));
  for (std::int64_t column = 0; column < x.d.columns; ++column)
    for (std::int64_t row = 0; row < x.d.rows; ++row) {
      const float *const terms_a = a.data() + row * k, *const terms_b = b.data() + column * k;
      float sum = sum_of(terms_a, terms_b, 0, cut, backward, rounded);
      if (cut < k) {
        float* const two = parts + 2 * (column * x.d.rows + row);
        two[0] = sum;
        two[1] = sum_of(terms_a, terms_b, cut, k, backward, rounded);
        sum = two[0] + two[1];
      }
      double value = static_cast<double>(alpha * sum);
      if (beta != 0)
        value += static_cast<double>(beta) * get(at.c, column * x.c.ld + row, x.c.type);
      put(at.d, column * x.d.ld + row, x.d.type, finished(product, x, row, column, value));
    }
  if (product.epilogue() == CUBLASLT_EPILOGUE_BGRADA) sum_side(product, a, k, x.d.type);
  if (product.epilogue() == CUBLASLT_EPILOGUE_BGRADB) sum_side(product, b, k, x.d.type);
}

template <class T, class... Args>
cublasStatus_t create(T** out, Args... args) {
  *out = new T{args...};
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Described, class Attribute>
cublasStatus_t set(Described* described, Attribute attribute, const void* value, std::size_t bytes,
                   std::size_t expected_bytes) {
  if (value == nullptr || bytes != expected_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t stored = 0;
  std::memcpy(&stored, value, bytes);
  described->values[attribute] = stored;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hgt

using namespace hgt;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return create(handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle);
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_SUCCESS";
}
std::size_t cublasLtGetVersion() {
  return 130000;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  return create(out, type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(out, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return destroy(product);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const bool wide = attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ||
                    attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER ||
                    attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;
  return set(product, attribute, value, bytes, wide ? 8 : 4);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return create(out);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return set(preference, attribute, value, bytes,
             attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const Layouts layouts{*a, *b, *c, *d};
  if (std::getenv("HGTRAIN_EMULATION_SHOW_PRODUCTS") != nullptr)
    fmt::print(stderr, "emulation: asked for the algorithms of {} x {} x {}\n", d->rows, d->columns,
               terms(*product, layouts));
  std::uint64_t alignment = 256;
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    alignment = std::min(alignment, preference->get(operand, 256));
  *count = 0;
  for (std::uint64_t i = 0; i < std::size(kAlgorithms) && *count < most; ++i) {
    const Algorithm& algorithm = kAlgorithms[i];
    const std::size_t workspace = workspace_of(algorithm, layouts);
    if (algorithm.alignment > alignment ||
        workspace > preference->get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0) ||
        (preference->get(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                         CUBLASLT_REDUCTION_SCHEME_MASK) &
         algorithm.reduction) != algorithm.reduction ||
        support(algorithm, *product, layouts) != CUBLAS_STATUS_SUCCESS)
      continue;
    results[(*count)++] = {{{kMark, i}}, workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Layouts layouts{*a, *b, *c, *d};
  const Algorithm* const algorithm = algorithm_of(*algo);
  if (algorithm == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = workspace_of(*algorithm, layouts);
  return result->state = support(*algorithm, *product, layouts);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const Layouts layouts{*a_layout, *b_layout, *c_layout, *d_layout};
  cublasLtMatmulHeuristicResult_t needs{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, product, a_layout, b_layout,
                                                        c_layout, d_layout, algo, &needs);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm& algorithm = *algorithm_of(*algo);
  if (!algorithm.runs) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool right_memory = on_device(a, *a_layout) && on_device(b, *b_layout) &&
                            on_device(c, *c_layout) && on_device(d, *d_layout) &&
                            aligned(a, algorithm.alignment) && aligned(b, algorithm.alignment) &&
                            aligned(c, algorithm.alignment) && aligned(d, algorithm.alignment);
  if (!right_memory || workspace_bytes < needs.workspaceSize || !aligned(workspace, 16) ||
      (needs.workspaceSize > 0 && !on_device(workspace, needs.workspaceSize)))
    return CUBLAS_STATUS_INVALID_VALUE;
  emulation::submit(
      stream, [=, &algorithm, described = *product, factor = *static_cast<const float*>(alpha),
               kept = *static_cast<const float*>(beta)] {
        multiply(algorithm, described, layouts, {a, b, c, d}, factor, kept,
                 static_cast<float*>(workspace));
      });
  emulation::device_state.clock_us += us_of(algorithm, *product, terms(*product, layouts));
  return CUBLAS_STATUS_SUCCESS;
}
