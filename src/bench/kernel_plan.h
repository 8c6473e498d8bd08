#pragma once

#include <span>

namespace hgt {

/// What nvcc made of a kernel, for one kind of device. An Access counts instructions by the bytes
/// that each thread moves with one: 16, 8, 4, 2 and 1.
struct CompiledKernel {
  using Access = int[5];

  const char *source, *name;       ///< "norm" for norm.cu; "norm_rows<bf16 1 true>"
  int sm;                          ///< compute capability 9.0: 90
  int threads;                     ///< per block, at most
  int registers;                   ///< of a thread
  int shared_bytes;                ///< of a block
  int local_bytes;                 ///< per thread: spilled registers, and arrays
  Access loads, stores;            ///< of global memory
  Access loop_loads, loop_stores;  ///< those in loops
  Access shared_loads, shared_stores;
  int local_accesses, atomics;
};

/// The kernels' table, src/bench/kernel_table.inc, which scripts/kernel_table writes.
std::span<const CompiledKernel> compiled_kernels();

/// How many blocks of a kernel a multiprocessor holds at a time.
struct Occupancy {
  int blocks;
  double share;  ///< of the warps that a multiprocessor can hold
  const char*
      limit;  ///< what allows no more blocks: "registers", "shared memory", "threads" or "blocks"
};

/// By the rules of CUDA's occupancy calculator, for blocks of `threads` threads. `sm` is 80 or 90.
Occupancy occupancy_of(int sm, int threads, int registers, int shared_bytes);

}  // namespace hgt
