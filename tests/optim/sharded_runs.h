#pragma once

#include <cstring>
#include <memory>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/optim/ema.h"
#include "hgtrain/optim/norm.h"

#include "optimizer_runs.h"

// The same work on one rank and divided among several, on any device. Checks are in parentheses:
// Catch would take minutes to print the values.

namespace hgt {

using Bytes = std::vector<std::byte>;

inline std::vector<OptimizerConfig> every_optimizer() {
  std::vector<OptimizerConfig> out;
  for (const char* type : {"AdamW", "Adam", "Lamb", "Lion", "Adagrad", "SGD", "SGD", "SGD"}) {
    OptimizerConfig& config = out.emplace_back();
    config.type = type;
    config.weight_decay = 0.1;
  }
  out[1].adam_w_mode = false;
  out[5].momentum = 0;
  out[6].momentum = out[7].momentum = 0.9;
  out[7].nesterov = true;
  return out;
}

/// Three blocks; the first two are of several units, and no tensor ends where a unit does.
inline ParameterTable table_of_blocks() {
  ParameterTable table;
  add_tensor(table, 20'000, true, 0);
  add_tensor(table, 5, false, 0);
  for (const std::int64_t size : {300, 33'001}) add_tensor(table, size, true, 1);
  for (const std::int64_t size : {70, 6'000}) add_tensor(table, size, false, 1);
  add_tensor(table, 17, false, 2);
  return table;
}

/// Shares of the ranks in a run; the last rank of one of them owns nothing.
inline const std::vector<std::vector<double>>& some_shares() {
  static const std::vector<std::vector<double>> all = {{1, 0.45}, {0.2, 1, 0.7}, {1, 2, 0}};
  return all;
}

/// Values for all elements of a table, zeros in its padding.
inline Bytes values_of(const ParameterTable& table, DType type, int seed) {
  Bytes out(static_cast<std::size_t>(table.total) * size_of(type));
  for (const Parameter& p : table.parameters)
    for (std::int64_t i = p.offset; i < p.offset + p.numel; ++i) {
      const float x = std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(seed));
      const BFloat16 narrow(x);
      const void* const from = type == DType::kF32 ? static_cast<const void*>(&x) : &narrow.bits;
      std::memcpy(&out[static_cast<std::size_t>(i) * size_of(type)], from, size_of(type));
    }
  return out;
}

/// Values of the flat layout on a stream's device: a rank's shard, or all of them.
class FlatCopy {
 public:
  FlatCopy(DType type, bool sharded, const Sharding& sharding, int rank, std::int64_t total,
           Stream stream)
      : slices_(sharding.slices(rank)),
        count_(sharded ? sharding.shard_elements(rank) : total),
        type_(type),
        sharded_(sharded),
        stream_(stream),
        buffer_("values", count_ * static_cast<std::int64_t>(size_of(type)), stream.device()) {}
  FlatTensor tensor() const {
    return {Tensor(buffer_.data(), {count_}, type_, stream_.device()), sharded_};
  }
  /// Takes the rank's elements from all elements.
  void set(const Bytes& all) const {
    for (const Slice& slice : slices_)
      stream_.copy(tensor().at(slice).raw(), all.data() + first(slice), bytes(slice));
    stream_.synchronize();
  }
  /// Writes the rank's elements to their places among all.
  void add_to(Bytes& all) const {
    for (const Slice& slice : slices_)
      stream_.copy(all.data() + first(slice), tensor().at(slice).raw(), bytes(slice));
    stream_.synchronize();
  }

 private:
  std::size_t first(const Slice& slice) const {
    return static_cast<std::size_t>(slice.elements.begin) * size_of(type_);
  }
  std::size_t bytes(const Slice& slice) const {
    return static_cast<std::size_t>(slice.elements.size()) * size_of(type_);
  }
  std::span<const Slice> slices_;
  std::int64_t count_;
  DType type_;
  bool sharded_;
  Stream stream_;
  Buffer buffer_;
};

/// The types of an optimizer's buffers, and which of them are sharded.
struct Storage {
  DType parameters = DType::kF32, state = DType::kF32;
  bool weights = false;  ///< bf16 weights besides the parameters
  bool parameters_sharded = false, gradients_sharded = false, weights_sharded = false;
};

/// One rank of a run.
struct ShardedRank {
  ShardedRank(const OptimizerConfig& config, const ParameterTable& table, const Storage& storage,
              const Sharding& sharding, int rank, Stream on)
      : stream(on) {
    const auto add = [&](DType type, bool sharded) -> FlatTensor {
      return copies.emplace_back(type, sharded, sharding, rank, table.total, stream).tensor();
    };
    copies.reserve(5);
    Optimizer::Buffers buffers{{}, {}, {}, {}};
    buffers.gradients = add(DType::kF32, storage.gradients_sharded);
    buffers.parameters = add(storage.parameters, storage.parameters_sharded);
    for (std::size_t i = 0; i < optimizer_state(config).size(); ++i)
      buffers.state.push_back(add(storage.state, true));
    if (storage.weights) buffers.weights = add(DType::kBF16, storage.weights_sharded);
    copies[1].set(values_of(table, storage.parameters, 0));
    optimizer = std::make_unique<Optimizer>(config, table, buffers, sharding.slices(rank), stream);
  }
  Update* send(Update values) const {
    stream.copy(update.data(), &values, sizeof values);
    stream.synchronize();
    return static_cast<Update*>(update.data());
  }
  Stream stream;
  std::vector<FlatCopy> copies;  ///< gradients, parameters, state, weights
  Buffer update{"update", sizeof(Update), stream.device()};
  std::unique_ptr<Optimizer> optimizer;
};

/// Each rank gets the sum of all ranks' norm parts.
inline void sum_norm_parts(const std::vector<ShardedRank>& ranks) {
  if (!ranks[0].optimizer->norm_parts()) return;
  const auto count = static_cast<std::size_t>(ranks[0].optimizer->norm_parts().numel());
  std::vector<double> sums(count), parts(count);
  for (const ShardedRank& rank : ranks) {
    rank.stream.copy(parts.data(), rank.optimizer->norm_parts().raw(), count * sizeof(double));
    rank.stream.synchronize();
    for (std::size_t i = 0; i < count; ++i) sums[i] += parts[i];
  }
  for (const ShardedRank& rank : ranks) {
    rank.stream.copy(rank.optimizer->norm_parts().raw(), sums.data(), count * sizeof(double));
    rank.stream.synchronize();
  }
}

/// Parameters, state and weights after two updates.
inline std::vector<Bytes> updated_by_ranks(const OptimizerConfig& config,
                                           const ParameterTable& table, const Storage& storage,
                                           const std::vector<double>& shares, Stream stream) {
  const Sharding sharding(table.blocks(), shares);
  std::vector<ShardedRank> ranks;
  for (int rank = 0; rank < sharding.ranks(); ++rank)
    ranks.emplace_back(config, table, storage, sharding, rank, stream);
  for (int t = 1; t <= 2; ++t) {
    const auto send = [&](const ShardedRank& rank) {
      Update update = rank.optimizer->constants({0.01, {}, {}}, t);
      update.gradient_factor = 0.7f;
      update.rounding_key = rounding_key(3, t);
      return rank.send(update);
    };
    for (const ShardedRank& rank : ranks) {
      rank.copies[0].set(values_of(table, DType::kF32, t));
      rank.optimizer->prepare(send(rank));
    }
    sum_norm_parts(ranks);
    for (const ShardedRank& rank : ranks) rank.optimizer->step(send(rank));
  }
  std::vector<Bytes> out;
  for (std::size_t i = 1; i < ranks[0].copies.size(); ++i) {
    const Tensor& values = ranks[0].copies[i].tensor().values;
    out.emplace_back(static_cast<std::size_t>(table.total) * size_of(values.dtype()));
    for (const ShardedRank& rank : ranks) rank.copies[i].add_to(out.back());
  }
  return out;
}

/// Whatever is sharded, any number of ranks updates every element as one rank does.
inline void check_shards(const OptimizerConfig& config, Stream stream) {
  const ParameterTable table = table_of_blocks();
  const DType narrow = DType::kBF16, wide = DType::kF32;
  std::vector<Storage> storages = {
      {.parameters_sharded = false},
      {.parameters_sharded = true, .gradients_sharded = true},
      {.weights = true, .parameters_sharded = true},
      {.weights = true,
       .parameters_sharded = true,
       .gradients_sharded = true,
       .weights_sharded = true},
  };
  if (config.type != "Lamb") {
    storages.push_back({.parameters = narrow, .state = wide, .parameters_sharded = true});
    storages.push_back({.parameters = narrow, .state = narrow, .gradients_sharded = true});
    storages.push_back({.parameters = narrow,
                        .state = narrow,
                        .parameters_sharded = true,
                        .gradients_sharded = true});
  }
  for (const Storage& storage : storages) {
    const Storage whole{storage.parameters, storage.state, storage.weights};
    const auto expected = updated_by_ranks(config, table, whole, {1}, stream);
    CHECK((expected[0] != values_of(table, storage.parameters, 0)));
    for (const std::vector<double>& shares : some_shares()) {
      INFO(config.type << ", storage " << &storage - storages.data() << ", ranks "
                       << shares.size());
      CHECK((updated_by_ranks(config, table, storage, shares, stream) == expected));
    }
  }
}

/// The squares of all pieces, as the ranks find them together.
inline std::vector<double> squares_by_ranks(const ParameterTable& table, bool sharded,
                                            const std::vector<double>& shares, Stream stream) {
  const Sharding sharding(table.blocks(), shares);
  const std::vector<FlatPiece> all = tensor_pieces(table);
  const Buffer squares("squares", std::ssize(all) * 8, stream.device());
  const Tensor out(squares.data(), {std::ssize(all)}, DType::kF64, stream.device());
  for (int rank = 0; rank < sharding.ranks(); ++rank) {
    const FlatCopy values(DType::kF32, sharded, sharding, rank, table.total, stream);
    values.set(values_of(table, DType::kF32, 1));
    squares_of_pieces(values.tensor(), Pieces(all, sharding.slices(rank), stream), out, stream);
    stream.synchronize();
  }
  std::vector<double> host(all.size());
  stream.copy(host.data(), squares.data(), host.size() * sizeof(double));
  stream.synchronize();
  return host;
}

inline void check_sharded_norm(Stream stream) {
  const ParameterTable table = table_of_blocks();
  const std::vector<double> expected = squares_by_ranks(table, false, {1}, stream);
  for (const double squares : expected) CHECK(squares > 0);
  for (const std::vector<double>& shares : some_shares())
    for (const bool sharded : {false, true})
      CHECK(squares_by_ranks(table, sharded, shares, stream) == expected);
}

/// The average after a step, as the ranks compute it together.
inline Bytes averaged_by_ranks(const ParameterTable& table, bool average_sharded,
                               bool values_sharded, DType type, const std::vector<double>& shares,
                               Stream stream) {
  const Sharding sharding(table.blocks(), shares);
  const std::vector<FlatPiece> all = tensor_pieces(table);
  Bytes out(static_cast<std::size_t>(table.total) * 4);
  const Buffer update("update", sizeof(Update), stream.device());
  for (int rank = 0; rank < sharding.ranks(); ++rank) {
    const FlatCopy average(DType::kF32, average_sharded, sharding, rank, table.total, stream);
    const FlatCopy values(type, values_sharded, sharding, rank, table.total, stream);
    average.set(values_of(table, DType::kF32, 1));
    values.set(values_of(table, type, 2));
    const Pieces pieces(all, sharding.slices(rank), stream);
    update_ema(0.9, values.tensor(), average.tensor(), pieces,
               static_cast<const Update*>(update.data()), stream);
    average.add_to(out);
  }
  return out;
}

inline void check_sharded_average(Stream stream) {
  const ParameterTable table = table_of_blocks();
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const Bytes expected = averaged_by_ranks(table, false, false, type, {1}, stream);
    CHECK((expected != values_of(table, DType::kF32, 1)));
    for (const std::vector<double>& shares : some_shares())
      for (const bool average_sharded : {false, true})
        for (const bool values_sharded : {false, true})
          CHECK((averaged_by_ranks(table, average_sharded, values_sharded, type, shares, stream) ==
                 expected));
  }
}

}  // namespace hgt
