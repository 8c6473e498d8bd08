#include "hgtrain/train/evaluate.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/arch/rank_plan.h"
#include "hgtrain/base/error.h"
#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/config.h"
#include "hgtrain/data/dataset.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/device/upload.h"
#include "hgtrain/model/model.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/model_options.h"
#include "hgtrain/wire/phases.h"

#include "mean_loss.h"

namespace hgt {
namespace {

/// Loads the weights in the compute dtype onto the stream's device. Rank 0 reads and broadcasts
/// them.
Buffer load_weights(const Config& config, const ParameterTable& table, const std::string& stem,
                    Communicator& comm, Stream stream) {
  const DType dtype = config.precision.compute_dtype();
  Buffer weights("weights", table.total * static_cast<std::int64_t>(size_of(dtype)));
  if (comm.rank() == 0)
    load_hf_weights(config.model.init, table, Tensor(weights.data(), {table.total}, dtype), stem);
  comm.broadcast(weights.as<std::byte>(), 0);
  return uploaded(std::move(weights), stream);
}

}  // namespace

double evaluate_model(const Config& config, const std::string& weights, std::int64_t samples,
                      Communicator& comm, Progress& progress, const CudaQueue* queue) {
  ThreadPool pool(static_cast<int>(config.hardware.threads), config.training.deterministic);
  const Stream stream = queue ? Stream(*queue) : Stream(pool);
  const auto data = Dataset::open(config.data, config.training.seq_length, Dataset::Split::kValid,
                                  config.model.vocab_size);
  const ParameterTable table = parameter_table(
      config.model, config.training.no_decay_norms_and_biases, 1, vocabulary_unit(config));
  progress.phase = "loading";
  const Buffer loaded = load_weights(config, table, weights, comm, stream);
  const auto model = Model::create(
      config.model, table,
      Tensor(loaded.data(), {table.total}, config.precision.compute_dtype(), loaded.device()), {},
      model_options(config), stream);
  const SampleForm form = sample_form(config);
  DeviceBatch batch(config.batch.micro_batch_size, config.batch.micro_batch_size, form, stream);
  const Buffer loss_sum("loss of a micro-batch", sizeof(double), stream.device());
  const Groups groups(comm);
  const auto evaluate = [&](std::int64_t rows) {
    if (rows == 0) return;
    model->evaluate(batch.stage_micro_batch(0, rows), loss_sum.as<double>().data());
  };
  progress.phase = kEvaluationPhase;
  const double loss = mean_loss({config, groups, form, comm.rank(), comm.size(), true, stream,
                                 *data, batch, loss_sum, 1, progress, evaluate},
                                samples);
  if (!std::isfinite(loss))
    throw Error(ErrorKind::kCheck, fmt::format("the loss is {}", human_number(loss, 4)),
                "use another checkpoint, from before its training diverged, or compute in fp32");
  return loss;
}

}  // namespace hgt
