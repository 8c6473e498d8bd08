#include "hgtrain/ops/embedding.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "reference.h"

using namespace hgt;

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
