#include "dispatch.h"

#include <catch2/catch.hpp>

#include "hgtrain/ops/attention.h"
#include "hgtrain/ops/cross_entropy.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/ops/linear.h"
#include "hgtrain/ops/rope.h"

#include "support/fake_cuda.h"

using namespace hgt;

namespace {

// The module's last arguments, recorded by a table that does nothing else.
GemmArgs g_gemm;
RopeArgs g_rope;
AttentionArgs g_attention;
CrossEntropyArgs g_cross_entropy;

const CudaOpsTable& remembering() {
  static const CudaOpsTable table = [] {
    CudaOpsTable t{};
    t.gemm = [](const GemmArgs* args, CudaStreamState*) -> CudaResult {
      return g_gemm = *args, nullptr;
    };
    t.rope = [](const RopeArgs* args, CudaStreamState*) -> CudaResult {
      return g_rope = *args, nullptr;
    };
    t.attention_fwd = [](const AttentionArgs* args, CudaStreamState*) -> CudaResult {
      return g_attention = *args, nullptr;
    };
    t.cross_entropy = [](const CrossEntropyArgs* args, CudaStreamState*) -> CudaResult {
      return g_cross_entropy = *args, nullptr;
    };
    t.norm_fwd = [](const NormArgs*, CudaStreamState*) -> CudaResult {
      static const CudaFailure failure{static_cast<int>(ErrorKind::kDevice), "CUDA: out of luck",
                                       "", "the call"};
      return &failure;
    };
    return t;
  }();
  return table;
}

/// A queue of the fake device, and tensors at made-up addresses of its memory.
struct Fixture {
  CudaModule module = fake_cuda::module(&remembering(), nullptr);
  CudaQueue queue{Device::cuda(1), module};
  Stream stream{queue};

  static float* address(std::uintptr_t at) { return reinterpret_cast<float*>(at); }
  Tensor at(std::uintptr_t where, std::initializer_list<std::int64_t> shape,
            DType dtype = DType::kF32) const {
    return Tensor(address(where), shape, dtype, queue.device());
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a product's orientation and distances reach the module") {
  gemm(2, at(0x1000, {5, 3}).transposed(), at(0x2000, {5, 7}), 0.5f,
       at(0x3000, {9, 7}).slice(0, 0, 3), stream);
  CHECK(g_gemm.a == address(0x1000));
  CHECK(g_gemm.c == address(0x3000));
  CHECK((g_gemm.m == 3 && g_gemm.n == 7 && g_gemm.k == 5));
  CHECK((g_gemm.lda == 3 && g_gemm.ldb == 7 && g_gemm.ldc == 7));
  CHECK((g_gemm.transposed_a && !g_gemm.transposed_b && !g_gemm.transposed_c));
  CHECK((g_gemm.alpha == 2 && g_gemm.beta == 0.5f));
}

TEST_CASE_METHOD(Fixture, "a linear layer's bias and GELU reach the module with its products") {
  const Tensor x = at(0x1000, {4, 3}), w = at(0x2000, {3, 6}), bias = at(0x3000, {6}),
               y = at(0x4000, {4, 6}), pre = at(0x5000, {4, 6});
  linear_fwd(x, w, {}, y, stream);
  CHECK((g_gemm.epilogue == GemmEpilogue::kNone && g_gemm.bias == nullptr));
  linear_fwd(x, w, bias, y, stream);
  CHECK((g_gemm.epilogue == GemmEpilogue::kBias && g_gemm.bias == address(0x3000)));
  linear_activation_fwd(Activation::kGeluTanh, x, w, bias, pre, y, stream);
  CHECK((g_gemm.epilogue == GemmEpilogue::kGelu && g_gemm.bias == address(0x3000)));
  CHECK((g_gemm.c == address(0x4000) && g_gemm.pre == address(0x5000)));
  linear_activation_bwd_input(Activation::kGeluTanh, at(0x6000, {4, 5}), at(0x7000, {6, 5}), pre, y,
                              stream);
  CHECK((g_gemm.epilogue == GemmEpilogue::kGeluBwd && g_gemm.pre == address(0x5000)));
  CHECK((g_gemm.m == 4 && g_gemm.n == 6 && g_gemm.k == 5 && g_gemm.transposed_b));
  linear_bwd_weight(x, y, w, bias, stream);
  CHECK((g_gemm.epilogue == GemmEpilogue::kColumnSums && g_gemm.bias == address(0x3000)));
  CHECK((g_gemm.b == address(0x4000) && g_gemm.beta == 1));
}

TEST_CASE_METHOD(Fixture, "the operands of a GELU with a product have no gaps") {
  const Tensor x = at(0x1000, {4, 3}), w = at(0x2000, {3, 6}), wide = at(0x4000, {4, 7}),
               y = at(0x3000, {4, 6});
  CHECK_THROWS_WITH(
      linear_activation_fwd(Activation::kGeluTanh, x, w, {}, wide.slice(1, 0, 6), y, stream),
      "linear_activation_fwd: pre has gaps");
  CHECK_THROWS_WITH(linear_activation_bwd_input(Activation::kGeluTanh, x, w.transposed(), y,
                                                wide.slice(1, 0, 6), stream),
                    Catch::Contains("linear_activation_bwd_input: "));
}

TEST_CASE_METHOD(Fixture, "strides of a head in a fused projection reach the module") {
  const Tensor qkv = at(0x10000, {2, 5, 3 * 4 * 8});
  const auto part = [&](std::int64_t i) { return qkv.slice(2, i * 32, (i + 1) * 32).split(2, 4); };
  rope_bwd(part(1), at(0x1000, {5, 4}), at(0x2000, {5, 4}), stream);
  CHECK(g_rope.x.data == address(0x10000) + 32);
  CHECK((g_rope.x.batch_stride == 5 * 96 && g_rope.x.position_stride == 96 &&
         g_rope.x.head_stride == 8));
  CHECK((g_rope.batch == 2 && g_rope.length == 5 && g_rope.heads == 4 && g_rope.width == 8));
  CHECK(g_rope.direction == -1);

  const SampleKey* const key = reinterpret_cast<SampleKey*>(address(0x5000));
  attention_fwd(part(0), part(1), part(2), {0.25f, 3, {0.1f, 7, key, 10}}, at(0x3000, {2, 5, 4, 8}),
                at(0x4000, {2, 4, 5}), stream);
  CHECK((g_attention.v.data == address(0x10000) + 64 && g_attention.v.position_stride == 96));
  CHECK((g_attention.queries == 5 && g_attention.keys == 5 && g_attention.window == 3));
  CHECK((g_attention.dropout.seed == 7 && g_attention.dropout.samples == key));
  CHECK(g_attention.dropout.site == 10);
}

TEST_CASE_METHOD(Fixture, "cross-entropy computes a gradient only if one is wanted") {
  const Tensor logits = at(0x1000, {3, 11}), targets = at(0x2000, {3}, DType::kI32),
               losses = at(0x3000, {3});
  cross_entropy_fwd_bwd(logits, targets, 0.5f, losses, stream);
  CHECK((g_cross_entropy.backward && g_cross_entropy.gradient_scale == 0.5f));
  cross_entropy_fwd(logits, targets, losses, stream);
  CHECK((!g_cross_entropy.backward && g_cross_entropy.ignored == kIgnoredTarget));
}

TEST_CASE_METHOD(Fixture, "operands on another device than the stream's are refused") {
  float host[4] = {};
  CHECK_THROWS_WITH(
      rope_fwd(Tensor(host, {1, 1, 1, 4}), at(0x1000, {1, 2}), at(0x2000, {1, 2}), stream),
      Catch::Contains("x lies on cpu, the op runs on cuda:1"));
  ThreadPool pool(1);
  CHECK_THROWS_WITH(
      gemm(1, at(0x1000, {2, 2}), at(0x2000, {2, 2}), 0, at(0x3000, {2, 2}), Stream(pool)),
      Catch::Contains("lies on cuda:1, the op runs on cpu"));
}

TEST_CASE_METHOD(Fixture, "a failure in the module is thrown as an Error") {
  const NormArgs args{};
  try {
    run_cuda(stream, &CudaOpsTable::norm_fwd, args);
    FAIL("the failure was swallowed");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kDevice);
    CHECK(error.message() == "CUDA: out of luck");
    CHECK(error.context() == std::vector<std::string>{"the call"});
  }
}
