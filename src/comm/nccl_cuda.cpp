#include <algorithm>
#include <cstring>
#include <memory>
#include <nccl.h>
#include <span>

#include <fmt/format.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"

#include "add_received.h"
#include "cuda_comm_table.h"

#define HGT_NCCL_CHECK(comm, call) ::hgt::check_nccl((call), comm, #call, __FILE__, __LINE__)

namespace hgt {

struct CudaCommState {
  int device = 0, rank = 0, size = 0;
  ncclComm_t comm = nullptr;
  ncclComm_t no_part = nullptr;  ///< what a split gives to a rank that is in no group
};

namespace {

static_assert(sizeof(CudaCommId) == sizeof(ncclUniqueId));

/// "In progress" is no error: poll says when it is over.
void check_nccl(ncclResult_t status, ncclComm_t comm, const char* call, const char* file,
                int line) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const bool peer = status == ncclRemoteError || status == ncclSystemError;
  throw Error(peer ? ErrorKind::kPeer : ErrorKind::kDevice,
              fmt::format("NCCL: {}: {}", ncclGetErrorString(status), ncclGetLastError(comm)),
              "NCCL_DEBUG=WARN in the environment makes NCCL say more")
      .in(fmt::format("{} at {}:{}", call, file, line));
}

CudaResult make_id(CudaCommId* out) {
  return guarded([&] {
    ncclUniqueId id;
    HGT_NCCL_CHECK(nullptr, ncclGetUniqueId(&id));
    std::memcpy(out, &id, sizeof id);
  });
}

CudaResult start_connect(const CudaCommId* id, int rank, int size, int device,
                         CudaCommState** out) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    auto state = std::make_unique<CudaCommState>();
    state->device = device, state->rank = rank, state->size = size;
    ncclUniqueId nccl_id;
    std::memcpy(&nccl_id, id, sizeof nccl_id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    HGT_NCCL_CHECK(nullptr, ncclCommInitRankConfig(&state->comm, size, nccl_id, rank, &config));
    *out = state.release();
  });
}

/// The new one does not block either: without a config of its own it has the first one's. NCCL sets
/// it when the first one is ready again.
CudaResult start_split(CudaCommState* comm, int color, int rank, int size, CudaCommState** out) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(comm->device));
    std::unique_ptr<CudaCommState> part;
    if (color >= 0)
      part = std::make_unique<CudaCommState>(
          CudaCommState{.device = comm->device, .rank = rank, .size = size});
    HGT_NCCL_CHECK(comm->comm, ncclCommSplit(comm->comm, part ? color : NCCL_SPLIT_NOCOLOR, rank,
                                             part ? &part->comm : &comm->no_part, nullptr));
    *out = part.release();
  });
}

CudaResult poll(CudaCommState* comm, bool* ready) {
  return guarded([&] {
    ncclResult_t state = ncclSuccess;
    HGT_NCCL_CHECK(comm->comm, ncclCommGetAsyncError(comm->comm, &state));
    HGT_NCCL_CHECK(comm->comm, state);
    *ready = state == ncclSuccess;
  });
}

CudaResult all_gather(CudaCommState* comm, const void* mine, void* all, std::size_t bytes,
                      CudaStreamState* stream) {
  return guarded([&] {
    HGT_NCCL_CHECK(comm->comm,
                   ncclAllGather(mine, all, bytes, ncclUint8, comm->comm, stream->use()));
  });
}

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    default:
      return ncclFloat32;
  }
}

CudaResult sum(CudaCommState* comm, void* values, std::size_t count, DType type,
               CudaStreamState* stream) {
  return guarded([&] {
    HGT_NCCL_CHECK(comm->comm, ncclAllReduce(values, values, count, nccl_type(type), ncclSum,
                                             comm->comm, stream->use()));
  });
}

CudaResult broadcast(CudaCommState* comm, void* memory, std::size_t bytes, int root,
                     CudaStreamState* stream) {
  return guarded([&] {
    HGT_NCCL_CHECK(comm->comm, ncclBroadcast(memory, memory, bytes, ncclUint8, root, comm->comm,
                                             stream->use()));
  });
}

/// Whether each rank owns one part, in the order of the ranks, and all are of one size.
bool are_even(std::span<const OwnedRange> parts, int ranks) {
  if (std::ssize(parts) != ranks) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    const OwnedRange& part = parts[static_cast<std::size_t>(rank)];
    if (part.rank != rank || part.elements.size() != parts[0].elements.size()) return false;
  }
  return true;
}

/// Runs call(part) for each part that is not empty, all as one operation of NCCL. The group ends
/// even if a call failed: the next one would hang in it otherwise.
template <class Call>
void run_group(CudaCommState* comm, std::span<const OwnedRange> parts, const Call& call) {
  HGT_NCCL_CHECK(comm->comm, ncclGroupStart());
  ncclResult_t status = ncclSuccess;
  for (const OwnedRange& part : parts)
    if (part.elements.size() > 0 && (status == ncclSuccess || status == ncclInProgress))
      status = call(part);
  const ncclResult_t end = ncclGroupEnd();
  HGT_NCCL_CHECK(comm->comm, status);
  HGT_NCCL_CHECK(comm->comm, end);
}

CudaResult reduce_scatter(CudaCommState* comm, void* values, DType type, const OwnedRange* parts,
                          std::size_t num_parts, CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    const auto from = [&](const OwnedRange& part) {
      return static_cast<std::byte*>(values) +
             static_cast<std::size_t>(part.elements.begin) * size_of(type);
    };
    if (are_even(all, comm->size)) {
      const OwnedRange& own = all[static_cast<std::size_t>(comm->rank)];
      HGT_NCCL_CHECK(
          comm->comm,
          ncclReduceScatter(values, from(own), static_cast<std::size_t>(own.elements.size()),
                            nccl_type(type), ncclSum, comm->comm, stream->use()));
      return;
    }
    run_group(comm, all, [&](const OwnedRange& part) {
      return ncclReduce(from(part), from(part), static_cast<std::size_t>(part.elements.size()),
                        nccl_type(type), ncclSum, part.rank, comm->comm, stream->use());
    });
  });
}

CudaResult all_gather_parts(CudaCommState* comm, void* memory, const OwnedRange* parts,
                            std::size_t num_parts, CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    std::byte* const bytes = static_cast<std::byte*>(memory);
    if (are_even(all, comm->size)) {
      const auto count = static_cast<std::size_t>(all[0].elements.size());
      HGT_NCCL_CHECK(comm->comm, ncclAllGather(bytes + static_cast<std::size_t>(comm->rank) * count,
                                               bytes, count, ncclUint8, comm->comm, stream->use()));
      return;
    }
    run_group(comm, all, [&](const OwnedRange& part) {
      std::byte* const at = bytes + part.elements.begin;
      return ncclBroadcast(at, at, static_cast<std::size_t>(part.elements.size()), ncclUint8,
                           part.rank, comm->comm, stream->use());
    });
  });
}

CudaResult exchange_parts(CudaCommState* comm, const void* values, DType type,
                          const OwnedRange* parts, std::size_t num_parts, void* received,
                          CudaStreamState* stream) {
  return guarded([&] {
    const std::span all(parts, num_parts);
    const auto bytes_of = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * size_of(type);
    };
    const std::int64_t stride = own_elements(all, comm->rank);
    std::int64_t at = 0;  // of the own parts so far
    run_group(comm, all, [&](const OwnedRange& part) {
      const auto count = static_cast<std::size_t>(part.elements.size());
      if (part.rank != comm->rank)
        return ncclSend(static_cast<const std::byte*>(values) + bytes_of(part.elements.begin),
                        count, nccl_type(type), part.rank, comm->comm, stream->use());
      ncclResult_t status = ncclSuccess;
      for (int peer = 0; peer < comm->size; ++peer) {
        if (peer == comm->rank || (status != ncclSuccess && status != ncclInProgress)) continue;
        const int place = peer < comm->rank ? peer : peer - 1;
        status = ncclRecv(static_cast<std::byte*>(received) + bytes_of(place * stride + at), count,
                          nccl_type(type), peer, comm->comm, stream->use());
      }
      at += part.elements.size();
      return status;
    });
  });
}

CudaResult add_received_parts(CudaCommState* comm, void* values, DType type,
                              const OwnedRange* parts, std::size_t num_parts, const void* received,
                              CudaStreamState* stream) {
  return guarded([&] {
    add_received({values, received, type, comm->rank, comm->size}, std::span(parts, num_parts),
                 *stream);
  });
}

CudaResult start_leave(CudaCommState* comm) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(comm->device));
    HGT_NCCL_CHECK(comm->comm, ncclCommFinalize(comm->comm));
  });
}

CudaResult destroy(CudaCommState* comm) {
  return guarded([&] {
    const std::unique_ptr<CudaCommState> owned(comm);
    HGT_CUDA_CHECK(cudaSetDevice(comm->device));
    HGT_NCCL_CHECK(nullptr, ncclCommDestroy(comm->comm));
  });
}

CudaResult abort(CudaCommState* comm) {
  return guarded([&] {
    const std::unique_ptr<CudaCommState> owned(comm);
    (void)cudaSetDevice(comm->device);  // fails if the device has failed; NCCL must end even then
    HGT_NCCL_CHECK(nullptr, ncclCommAbort(comm->comm));
  });
}

}  // namespace

const CudaCommTable* cuda_comm_table() {
  static constexpr CudaCommTable kTable = {
      .make_id = make_id,
      .start_connect = start_connect,
      .start_split = start_split,
      .poll = poll,
      .all_gather = all_gather,
      .sum = sum,
      .broadcast = broadcast,
      .reduce_scatter = reduce_scatter,
      .all_gather_parts = all_gather_parts,
      .exchange_parts = exchange_parts,
      .add_received_parts = add_received_parts,
      .start_leave = start_leave,
      .destroy = destroy,
      .abort = abort,
  };
  return &kTable;
}

}  // namespace hgt
