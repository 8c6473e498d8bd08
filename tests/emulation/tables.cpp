// The tables of the emulated module: the ops', with what each reads and writes compared with the
// rest.

#include "hgtrain/comm/cuda_comm.h"
#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_device.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"
#include "hgtrain/ops/cuda_ops.h"

#include "accesses.h"

namespace hgt {
namespace {

template <class Args>
Args args_of(CudaOpsTable::Op<Args> CudaOpsTable::*);

template <auto op, class Args = decltype(args_of(op))>
CudaResult noted(const Args* args, CudaStreamState* stream) {
  const CudaResult failure =
      guarded([&] { emulation::note(stream->use(), emulation::accesses(*args)); });
  return failure ? failure : (cuda_ops_table()->*op)(args, stream);
}

template <auto... op>
CudaOpsTable noted_table() {
  constexpr std::size_t kEntries = sizeof...(op) + 2;  // and disable_gemm_autotuning, use_cudnn
  static_assert(kEntries * sizeof(void*) == sizeof(CudaOpsTable), "an op is missing");
  CudaOpsTable table = *cuda_ops_table();
  ((table.*op = noted<op>), ...);
  return table;
}

using Ops = CudaOpsTable;

}  // namespace

extern "C" __attribute__((visibility("default"))) const CudaTables* hgtrain_cuda_tables() {
  static const CudaOpsTable ops =
      noted_table<&Ops::gemm, &Ops::embedding_fwd, &Ops::embedding_bwd, &Ops::layer_norm_fwd,
                  &Ops::layer_norm_bwd, &Ops::rms_norm_fwd, &Ops::rms_norm_bwd, &Ops::rope,
                  &Ops::dropout_add, &Ops::activation_fwd, &Ops::activation_bwd,
                  &Ops::gated_activation_fwd, &Ops::gated_activation_bwd, &Ops::cross_entropy,
                  &Ops::attention_fwd, &Ops::attention_bwd, &Ops::fill, &Ops::cast,
                  &Ops::sum_of_squares, &Ops::sum, &Ops::prepare_update, &Ops::update_elements,
                  &Ops::update_lamb, &Ops::update_average, &Ops::sample>();
  static const CudaTables tables = {.version = kCudaTableVersion,
                                    .build = HGT_CUDA_BUILD,
                                    .device = cuda_device_table(),
                                    .ops = &ops,
                                    .comm = cuda_comm_table()};
  return &tables;
}

}  // namespace hgt
