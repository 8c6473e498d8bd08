#pragma once

#include <cstddef>

#include "hgtrain/base/dtype.h"
#include "hgtrain/device/cuda_table.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

/// The identifier of a group: one rank makes it and gives it to the others.
struct CudaCommId {
  char bytes[128];
};

/// A rank's communicator of a group.
struct CudaCommState;

/// NCCL. No call blocks: after each call that takes a CudaCommState, `poll` until it is ready
/// before the next. Collectives are queued on the stream; all memory is device memory. Not
/// thread-safe for one comm.
struct CudaCommTable {
  CudaResult (*make_id)(CudaCommId* out);
  CudaResult (*start_connect)(const CudaCommId* id, int rank, int size, int device,
                              CudaCommState** out);
  /// Makes groups of the ranks of `comm`, all of which call it while nothing else of `comm` is
  /// under way. Ranks that pass the same color become a group of `size` ranks, in which this one is
  /// `rank`; a rank that passes -1 joins none, and gets null. Before `comm` is ready again, `*out`
  /// must not be used, except to abort it after `comm`.
  CudaResult (*start_split)(CudaCommState* comm, int color, int rank, int size,
                            CudaCommState** out);
  /// Also reports what failed since the last call, here or at a peer.
  CudaResult (*poll)(CudaCommState* comm, bool* ready);

  CudaResult (*all_gather)(CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                           CudaStreamState* stream);
  /// fp32, fp64, bf16 or fp16.
  CudaResult (*sum)(CudaCommState* comm, void* values, std::size_t count, DType type,
                    CudaStreamState* stream);
  CudaResult (*broadcast)(CudaCommState* comm, void* memory, std::size_t bytes, int root,
                          CudaStreamState* stream);

  /// In place. `parts` are those of Communicator; in its other parts, a rank's memory is undefined
  /// after a reduce-scatter, which is of the types of `sum`.
  CudaResult (*reduce_scatter)(CudaCommState* comm, void* values, DType type,
                               const OwnedRange* parts, std::size_t num_parts,
                               CudaStreamState* stream);
  CudaResult (*all_gather_parts)(CudaCommState* comm, void* memory, const OwnedRange* parts,
                                 std::size_t num_parts, CudaStreamState* stream);

  // A sum of 16-bit values whose ranks add all values in fp32, in their order, and round once. Each
  // part's owner receives what the others have of it, and adds it to its own.
  /// Sends the other ranks their parts. The values that this rank receives for its own parts go to
  /// `received`: rank after rank, each with all own parts one after the other.
  CudaResult (*exchange_parts)(CudaCommState* comm, const void* values, DType type,
                               const OwnedRange* parts, std::size_t num_parts, void* received,
                               CudaStreamState* stream);
  /// This rank's parts become sums. Communicates with nobody.
  CudaResult (*add_received_parts)(CudaCommState* comm, void* values, DType type,
                                   const OwnedRange* parts, std::size_t num_parts,
                                   const void* received, CudaStreamState* stream);

  /// The normal end: call destroy when ready after start_leave.
  CudaResult (*start_leave)(CudaCommState* comm);
  CudaResult (*destroy)(CudaCommState* comm);
  /// The abnormal end, at any time: stops its work on the device, and destroys it.
  CudaResult (*abort)(CudaCommState* comm);
};

}  // namespace hgt
