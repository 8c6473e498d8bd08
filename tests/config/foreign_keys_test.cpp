#include "hgtrain/config/foreign_keys.h"

#include <catch2/catch.hpp>

#include "hgtrain/config/schema.h"

#include "field.h"

using namespace hgt;

TEST_CASE("options of other programs lead to keys that exist") {
  CHECK(find_foreign_key("learning-rate")->key == "optimizer.params.lr");
  CHECK(find_foreign_key("lora")->key.empty());
  CHECK(find_foreign_key("train_batch_size") == nullptr);
  for (const char* name : {"max_grad_norm", "per_device_train_batch_size", "dropout", "optim",
                           "lr_scheduler_type", "warmup_ratio", "dataset", "cutoff_len"}) {
    INFO(name);
    CHECK(find_field(std::string(find_foreign_key(name)->key)) != nullptr);
  }
}
