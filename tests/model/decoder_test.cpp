#include "hgtrain/model/decoder.h"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/half.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/thread_pool.h"

#include "device_here.h"
#include "golden.h"

using namespace hgt;

namespace {

struct DecoderSetup {
  explicit DecoderSetup(const std::string& name, std::int64_t max_length) : golden(name) {
    golden.model.max_position_embeddings = 1000;
    table = parameter_table(golden.model, false);
    parameters = golden.parameters(table);
    decoder = Decoder::create(golden.model, table, flat_tensor(parameters), max_length, pool);
  }
  Tensor tensor(const Buffer& weights, DType dtype) const {
    return Tensor(weights.data(), {table.total}, dtype, weights.device());
  }
  Golden golden;
  ParameterTable table;
  ThreadPool pool{2};
  std::vector<float> parameters;
  std::unique_ptr<Decoder> decoder;
};

std::vector<std::int32_t> tokens(std::int64_t count) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(i * i % 61));
  return out;
}

using Logits = std::vector<float>;

/// Appends a decoder's logits; device memory is copied.
void read(const Tensor& logits, Stream stream, Logits& out) {
  const auto as = [&]<class T>(T, const void* memory) {
    std::vector<T> values(static_cast<std::size_t>(logits.numel()));
    stream.copy(values.data(), memory, values.size() * sizeof(T));
    stream.synchronize();
    out.insert(out.end(), values.begin(), values.end());
  };
  logits.dtype() == DType::kF32    ? as(0.0f, logits.raw())
  : logits.dtype() == DType::kBF16 ? as(BFloat16(), logits.raw())
                                   : as(Half(), logits.raw());
}

/// After a prompt, one more token, and another prompt in place of that token.
Logits logits_in_pieces(Decoder& decoder, Stream stream) {
  const auto text = tokens(12);
  Logits out;
  const auto append = [&](std::size_t begin, std::size_t count) {
    read(decoder.append(std::span(text).subspan(begin, count)), stream, out);
  };
  append(0, 7);
  append(7, 1);
  decoder.truncate(6);
  append(8, 4);
  return out;
}

/// The largest difference, in units of the largest logit.
double logit_distance(const Logits& a, const Logits& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return a.size() == b.size() ? difference / largest : INFINITY;
}

}  // namespace

TEST_CASE("a long prompt at once or in pieces gives the same logits") {
  for (const std::string name : {"gpt2", "mistral", "qwen3"}) {
    DecoderSetup whole(name, 600), pieces(name, 600);
    const auto prompt = tokens(600);
    Logits at_once, in_pieces;
    read(whole.decoder->append(prompt), whole.pool, at_once);
    CHECK(whole.decoder->length() == 600);
    Tensor last;
    for (std::size_t at = 0; at < 600; at += 60)
      last = pieces.decoder->append(std::span(prompt).subspan(at, 60));
    read(last, pieces.pool, in_pieces);
    INFO(name);
    CHECK(logit_distance(at_once, in_pieces) < 1e-5);
  }
}

TEST_CASE("in 16 bits the logits are near those of fp32") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    DecoderSetup s("qwen3", 12);
    const Logits expected = logits_in_pieces(*s.decoder, s.pool);
    const Buffer weights = rounded(s.parameters, dtype, s.pool);
    const auto decoder =
        Decoder::create(s.golden.model, s.table, s.tensor(weights, dtype), 12, s.pool);
    CHECK(logit_distance(logits_in_pieces(*decoder, s.pool), expected) <
          (dtype == DType::kBF16 ? 0.05 : 0.01));
  }
}

TEST_CASE("CUDA: a decoder's logits are the CPU's, in each precision") {
  const CudaModule* const module = module_with_device();
  if (module == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module);
  for (const std::string name : {"gpt2", "qwen3"})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      INFO(name << " " << name_of(dtype));
      DecoderSetup s(name, 12);
      const Buffer weights = rounded(s.parameters, dtype, s.pool),
                   there = rounded(s.parameters, dtype, queue);
      const auto on_cpu =
          Decoder::create(s.golden.model, s.table, s.tensor(weights, dtype), 12, s.pool);
      const auto on_gpu =
          Decoder::create(s.golden.model, s.table, s.tensor(there, dtype), 12, queue);
      const double most = dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 2e-3 : 2e-2;
      CHECK(logit_distance(logits_in_pieces(*on_gpu, queue), logits_in_pieces(*on_cpu, s.pool)) <
            most);
    }
}

TEST_CASE("a refused append leaves the sequence as it was") {
  DecoderSetup s("llama", 10);
  s.decoder->append(tokens(4));
  CHECK_THROWS_WITH(s.decoder->append(tokens(7)),
                    "7 tokens after 4 exceed the longest sequence of 10");
  const std::vector<std::int32_t> bad{1, 67};
  CHECK_THROWS_WITH(s.decoder->append(bad), "token 67 is outside the vocabulary of 67");
  CHECK_THROWS_AS(s.decoder->append({}), Error);
  CHECK_THROWS_AS(s.decoder->truncate(5), Error);
  CHECK(s.decoder->length() == 4);
  CHECK_NOTHROW(s.decoder->append(tokens(6)));
}

TEST_CASE("a decoder without positions for its sequence is refused") {
  CHECK_THROWS_AS(DecoderSetup("gpt2", 1001), Error);
  CHECK_NOTHROW(DecoderSetup("llama", 1001));
  CHECK_THROWS_AS(DecoderSetup("llama", 0), Error);
}
