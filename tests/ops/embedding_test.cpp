#include "hgtrain/ops/embedding.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "on_device.h"

using namespace hgt;
using namespace on_device;

namespace embedding_test {
namespace {

constexpr std::int64_t kBatch = 2, kLength = 3, kWidth = 5, kVocabulary = 7;

Tensor ids(std::vector<std::int32_t>& tokens) {
  return Tensor(tokens.data(), {kBatch, kLength}, DType::kI32);
}

}  // namespace

TEST_CASE("an embedding looks up tokens and positions, and sums gradients of repeated tokens") {
  std::vector<std::int32_t> tokens{3, 0, 3, 6, 3, 1};
  Floats table = random_floats(kVocabulary * kWidth, 1),
         places = random_floats(kLength * kWidth, 2);
  Floats out(kBatch * kLength * kWidth), dout = random_floats(kBatch * kLength * kWidth, 3);
  Floats dtable(table.size(), 1.0f), dplaces(places.size(), 2.0f);
  ThreadPool pool(3);
  const Stream stream(pool);
  embedding_fwd(ids(tokens), tensor(table, {kVocabulary, kWidth}),
                tensor(places, {kLength, kWidth}), tensor(out, {kBatch, kLength, kWidth}), stream);
  embedding_bwd(ids(tokens), tensor(dout, {kBatch, kLength, kWidth}),
                tensor(dtable, {kVocabulary, kWidth}), tensor(dplaces, {kLength, kWidth}), stream);

  Doubles expected_dtable(dtable.size(), 1.0), expected_dplaces(dplaces.size(), 2.0);
  for (std::size_t n = 0; n < tokens.size(); ++n)
    for (std::size_t c = 0; c < kWidth; ++c) {
      const std::size_t word = static_cast<std::size_t>(tokens[n]) * kWidth + c;
      const std::size_t place = n % kLength * kWidth + c;
      CHECK(out[n * kWidth + c] == table[word] + places[place]);
      expected_dtable[word] += static_cast<double>(dout[n * kWidth + c]);
      expected_dplaces[place] += static_cast<double>(dout[n * kWidth + c]);
    }
  CHECK(error_of(dtable, expected_dtable) < 1e-6);
  CHECK(error_of(dplaces, expected_dplaces) < 1e-6);
}

TEST_CASE("a token has the position that it is given") {
  std::vector<std::int32_t> tokens{3, 0, 3, 6, 3, 1}, positions{0, 0, 1, 0, 1, 0};
  Floats table(kVocabulary * kWidth), places = random_floats(kLength * kWidth, 2);
  Floats out(kBatch * kLength * kWidth), dout(out.size(), 1.0f);
  Floats dtable(table.size()), dplaces(places.size());
  ThreadPool pool(2);
  const Tensor y = tensor(out, {kBatch, kLength, kWidth}),
               dy = tensor(dout, {kBatch, kLength, kWidth});
  embedding_fwd(ids(tokens), tensor(table, {kVocabulary, kWidth}),
                tensor(places, {kLength, kWidth}), y, Stream(pool), ids(positions));
  embedding_bwd(ids(tokens), dy, tensor(dtable, {kVocabulary, kWidth}),
                tensor(dplaces, {kLength, kWidth}), Stream(pool), ids(positions));
  for (std::size_t n = 0; n < positions.size(); ++n)
    CHECK(out[n * kWidth] == places[static_cast<std::size_t>(positions[n]) * kWidth]);
  CHECK(dplaces[0] == 4.0f);
  CHECK(dplaces[kWidth] == 2.0f);
  CHECK(dplaces[2 * kWidth] == 0.0f);
}

TEST_CASE("tokens of a part of the positions look up and sum the whole table's rows") {
  constexpr std::int64_t kPositions = kLength + 4;
  std::vector<std::int32_t> tokens{3, 0, 3, 6, 3, 1}, positions{1, 5, 6, 1, 5, 6};
  Floats table(kVocabulary * kWidth), places = random_floats(kPositions * kWidth, 2);
  Floats out(kBatch * kLength * kWidth), dout(out.size(), 1.0f);
  Floats dtable(table.size()), dplaces(places.size());
  ThreadPool pool(2);
  const Tensor words = tensor(table, {kVocabulary, kWidth});
  embedding_fwd(ids(tokens), words, tensor(places, {kPositions, kWidth}),
                tensor(out, {kBatch, kLength, kWidth}), Stream(pool), ids(positions));
  embedding_bwd(ids(tokens), tensor(dout, {kBatch, kLength, kWidth}),
                tensor(dtable, {kVocabulary, kWidth}), tensor(dplaces, {kPositions, kWidth}),
                Stream(pool), ids(positions));
  for (std::size_t n = 0; n < positions.size(); ++n)
    CHECK(out[n * kWidth] == places[static_cast<std::size_t>(positions[n]) * kWidth]);
  for (std::size_t place = 0; place < kPositions; ++place)
    CHECK(dplaces[place * kWidth] == (place == 1 || place >= 5 ? 2.0f : 0.0f));
  positions[1] = kPositions;
  CHECK_THROWS_AS(
      embedding_fwd(ids(tokens), words, tensor(places, {kPositions, kWidth}),
                    tensor(out, {kBatch, kLength, kWidth}), Stream(pool), ids(positions)),
      Error);
}

TEST_CASE(
    "an embedding of a part of the vocabulary leaves other tokens at zero, without gradient") {
  std::vector<std::int32_t> tokens{3, 0, 3, 6, 3, 1};
  Floats table = random_floats(3 * kWidth, 1), out(kBatch * kLength * kWidth, 9.0f);
  Floats dout = random_floats(kBatch * kLength * kWidth, 3), dtable(table.size());
  ThreadPool pool(2);
  const VocabularyPart part{2, kVocabulary};  // 2, 3 and 4
  embedding_fwd(ids(tokens), tensor(table, {3, kWidth}), {}, tensor(out, {kBatch, kLength, kWidth}),
                pool, {}, part);
  embedding_bwd(ids(tokens), tensor(dout, {kBatch, kLength, kWidth}), tensor(dtable, {3, kWidth}),
                {}, pool, {}, part.first);
  for (std::size_t n = 0; n < tokens.size(); ++n)
    for (std::size_t c = 0; c < kWidth; ++c)
      CHECK(out[n * kWidth + c] == (tokens[n] == 3 ? table[kWidth + c] : 0.0f));
  for (std::size_t c = 0; c < kWidth; ++c) {
    CHECK(dtable[kWidth + c] == dout[c] + dout[2 * kWidth + c] + dout[4 * kWidth + c]);
    CHECK((dtable[c] == 0 && dtable[2 * kWidth + c] == 0));
  }
  tokens[0] = 7;
  CHECK_THROWS_WITH(embedding_fwd(ids(tokens), tensor(table, {3, kWidth}), {},
                                  tensor(out, {kBatch, kLength, kWidth}), pool, {}, part),
                    "token 7 is outside the vocabulary of 7");
}

TEST_CASE("an embedding without positions is the table's rows") {
  std::vector<std::int32_t> tokens{0, 1, 2, 3, 4, 5};
  Floats table = random_floats(kVocabulary * kWidth, 1), out(kBatch * kLength * kWidth);
  ThreadPool pool(1);
  embedding_fwd(ids(tokens), tensor(table, {kVocabulary, kWidth}), {},
                tensor(out, {kBatch, kLength, kWidth}), Stream(pool));
  CHECK(std::equal(out.begin(), out.end(), table.begin()));
}

TEST_CASE("a token outside the vocabulary is named") {
  Floats table(kVocabulary * kWidth), out(kBatch * kLength * kWidth);
  ThreadPool pool(1);
  for (const std::int32_t bad : {-1, 7, -100}) {
    std::vector<std::int32_t> tokens{0, 1, bad, 3, 4, 5};
    try {
      embedding_fwd(ids(tokens), tensor(table, {kVocabulary, kWidth}), {},
                    tensor(out, {kBatch, kLength, kWidth}), Stream(pool));
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kData);
      CHECK(e.message() == "token " + std::to_string(bad) + " is outside the vocabulary of 7");
    }
  }
}

TEST_CASE("CUDA: an embedding equals the CPU's", "[embedding]") {
  for (const DType type : kTypes)
    for (const std::int64_t width : {37, 64})
      compare(
          {integers({3, 300}, 50, 7), normal({50, width}, 1, 1, type),
           normal({300, width}, 2, 1, type), normal({3, 300, width}, 3, 1, type),
           normal({50, width}, 4), normal({300, width}, 5), document_positions(3, 300, 70),
           normal({3, 300, width}, 6, 1, type), integers({3, 300}, 400, 399),
           normal({400, width}, 7, 1, type), normal({400, width}, 8)},
          [](const std::vector<Tensor>& x, Stream stream) {
            embedding_fwd(x[0], x[1], x[2], x[3], stream);
            embedding_fwd(x[0], x[1], x[2], x[7], stream, x[6]);
            embedding_bwd(x[0], x[3], x[4], x[5], stream);
            embedding_bwd(x[0], x[3], x[4], {}, stream);
            embedding_bwd(x[0], x[3], x[4], x[5], stream, x[6]);
            embedding_fwd(x[0], x[1], x[9], x[7], stream, x[8]);
            embedding_bwd(x[0], x[3], x[4], x[10], stream, x[8]);
          },
          type == DType::kF32 ? 2e-5 : 1e-4);  // one addition is rounded as on the CPU
}

TEST_CASE("CUDA: an embedding of a part of the vocabulary equals the CPU's", "[embedding]") {
  for (const std::int64_t first : {0, 20, 40})  // of 50
    compare({integers({3, 300}, 50, 7), normal({20, 37}, 1), normal({3, 300, 37}, 2),
             normal({20, 37}, 3), normal({300, 37}, 4), normal({300, 37}, 5)},
            [=](const std::vector<Tensor>& x, Stream stream) {
              embedding_fwd(x[0], x[1], x[4], x[2], stream, {}, {first, 50});
              embedding_bwd(x[0], x[2], x[3], x[5], stream, {}, first);
            });
}

TEST_CASE("CUDA: embeddings of few and of many rows equal the CPU's", "[embedding]") {
  for (const std::int64_t vocabulary : {3, 2500})
    compare({integers({2, 5}, static_cast<std::int32_t>(vocabulary), 1), normal({vocabulary, 1}, 1),
             normal({2, 5, 1}, 2), normal({vocabulary, 1}, 3)},
            [](const std::vector<Tensor>& x, Stream stream) {
              embedding_fwd(x[0], x[1], {}, x[2], stream);
              embedding_bwd(x[0], x[2], x[3], {}, stream);
            });
}

TEST_CASE("CUDA: an embedding of one repeated token equals the CPU's", "[embedding]") {
  std::vector<std::int32_t> ids(192, 1);  // three whole chunks of 64 and an end
  ids.resize(200, 4);
  compare({stored<std::int32_t>(ids, {1, 200}, DType::kI32), normal({5, 9}, 1),
           normal({1, 200, 9}, 2), normal({5, 9}, 3)},
          [](const std::vector<Tensor>& x, Stream stream) {
            embedding_bwd(x[0], x[2], x[3], {}, stream);
          });
}

TEST_CASE("CUDA: a token that is not there gives NaN, and no gradient", "[embedding]") {
  if (module_with_device() == nullptr) return;
  const CudaQueue queue(Device::cuda(0), *module_with_device());
  for (const std::int32_t bad : {-1, -(1 << 30), 700, 1 << 30}) {
    const auto results = run_on_device(queue,
                                       {integers({1, 9}, 700, bad), normal({700, 21}, 1),
                                        normal({1, 9, 21}, 2), normal({700, 21}, 3)},
                                       [](const std::vector<Tensor>& x, Stream stream) {
                                         embedding_fwd(x[0], x[1], {}, x[2], stream);
                                         embedding_bwd(x[0], x[2], x[3], {}, stream);
                                       });
    for (std::size_t row = 0; row < 9; ++row) {
      INFO("row " << row);
      CHECK(std::isnan(results[2].floats()[row * 21 + 20]) == (row == 3));  // the bad token
    }
    for (const float x : results[3].floats()) CHECK(std::isfinite(x));
  }
}

}  // namespace embedding_test
