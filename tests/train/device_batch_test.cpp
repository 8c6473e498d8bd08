#include "device_batch.h"

#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/thread_pool.h"

using namespace hgt;

namespace {

std::vector<std::int32_t> list(std::span<const std::int32_t> ids) {
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("a micro-batch is a number of rows of the batch loaded last, and knows which") {
  ThreadPool pool(1);
  DeviceBatch batch(3, 2, {.seq_length = 2}, pool);
  batch.load({.tokens = {9, 9}, .targets = {9, 9}, .positions = {}, .samples = {0}}, {});
  batch.load({.tokens = {0, 1, 2, 3, 4, 5},
              .targets = {1, 2, 3, 4, 5, 6},
              .positions = {},
              .samples = {0, 1, 2}},
             {4, 30});
  const MicroBatch micro = batch.stage_micro_batch(1, 2);
  CHECK(list(micro.tokens_BT) == std::vector<std::int32_t>{2, 3, 4, 5});
  CHECK(list(micro.targets_BT) == std::vector<std::int32_t>{3, 4, 5, 6});
  CHECK(micro.positions_BT.empty());
  CHECK(micro.batch == 2);
  CHECK(micro.seq_length == 2);
  CHECK(micro.samples->step == 4);
  CHECK(micro.samples->first_sample == 31);
}

TEST_CASE("positions come along if samples are made of documents") {
  ThreadPool pool(1);
  DeviceBatch batch(2, 1, {.seq_length = 2, .document_start = 7}, pool);
  batch.load({.tokens = {7, 1, 7, 7},
              .targets = {1, 7, 7, 2},
              .positions = {0, 1, 0, 0},
              .samples = {0, 1}},
             {});
  CHECK(list(batch.stage_micro_batch(1, 1).positions_BT) == std::vector<std::int32_t>{0, 0});
}
