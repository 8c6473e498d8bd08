// The tables of the emulated module: the ops', with what each reads and writes compared with the
// rest.

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "accesses.h"
#include "cuda_table_version.h"

namespace hgt {
namespace {

template <class Args, CudaOpsTable::Op<Args> CudaOpsTable::*op>
CudaResult noted(const Args* args, CudaStreamState* stream) {
  const CudaResult failure =
      guarded([&] { emulation::note(stream->use(), emulation::accesses(*args)); });
  return failure ? failure : (cuda_ops_table()->*op)(args, stream);
}

CudaOpsTable noted_table() {
  CudaOpsTable table = *cuda_ops_table();
#define HGT_NOTED(op, Args) table.op = noted<Args, &CudaOpsTable::op>;
  HGT_CUDA_OPS(HGT_NOTED)
#undef HGT_NOTED
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const CudaTables* hgtrain_cuda_tables() {
  static const CudaOpsTable ops = noted_table();
  static const CudaTables tables = {.version = kCudaTableVersion,
                                    .build = HGT_CUDA_BUILD,
                                    .device = cuda_device_table(),
                                    .ops = &ops,
                                    .comm = cuda_comm_table()};
  return &tables;
}

}  // namespace hgt
