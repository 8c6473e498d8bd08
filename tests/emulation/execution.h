#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#include "cuda_runtime_api.h"

// CUDA's execution model on one thread of the host. The threads of a block are fibers; each runs
// until it waits for others. Blocks run one after the other.
//
// What runs first is drawn anew for each block and after each barrier: a permutation of the warps
// and of the lanes in each. The first one that can run runs as far as it can, so a warp that no
// barrier holds back runs far ahead of the others. Shared memory is NaN at a block's start.
//
// An Error(kDevice) ends the launch if threads wait for each other in vain, wait at different
// barriers, name lanes that do not come, ask for more than a device has, or write outside of
// allocations.

namespace hgt::emulation {

inline constexpr unsigned kWarpLanes = 32;

/// Runs `body` for every thread of the grid. One launch at a time; HGTRAIN_EMULATION_SEED (a
/// number) gives other orders.
void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes,
              std::size_t max_shared_bytes, const std::function<void()>& body);

/// Loads a kernel that is launched for the first time, as a device does if CUDA_MODULE_LOADING is
/// LAZY, which is the default: it waits for all work of the device, and no capture permits it.
void load(const void* kernel);

/// Memory of the block, of exactly the size asked for at the launch.
void* dynamic_shared_memory();

struct Votes {
  int yes;      ///< threads that came with a predicate that holds
  int threads;  ///< threads that came
};
/// Waits for all threads of the block that have not ended.
Votes wait_for_block(bool predicate, const std::source_location& where);

/// What each lane of the mask came with; all ones for the others.
using Lanes = std::array<std::uint64_t, kWarpLanes>;
/// Waits for the lanes of the mask, among which the caller must be.
const Lanes& wait_for_warp(unsigned mask, std::uint64_t bits, const std::source_location& where);

/// The caller's place in its warp.
unsigned lane();

}  // namespace hgt::emulation
