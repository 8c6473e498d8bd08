#pragma once

#include "hgtrain/wire/requests.h"

namespace hgt {

// The worker's commands. Each returns the exit status. A worker that is a rank of a job (train,
// eval, bench_layouts, bench_comm) reports an error on stderr and up the control channel; one that
// replaced hgtrain's process (generate, bench, bench_copy) prints it with hgtrain's name.

int train_worker(const TrainRequest& request);
int eval_worker(const EvalRequest& request);
int bench_layouts_worker(const BenchLayoutsRequest& request);
int bench_comm_worker(const BenchCommRequest& request);
int generate_worker(const GenerateRequest& request);
int bench_worker(const BenchRequest& request);
int bench_copy_worker(const BenchCopyRequest& request);
/// For `hgtrain doctor`: prints what the CUDA module says, one line of JSON.
int probe_worker();

}  // namespace hgt
