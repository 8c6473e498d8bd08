#include <cstring>
#include <memory>
#include <nccl.h>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"

#include "add_received.h"
#include "cuda_comm_table.h"

// The module's NCCL table over an NCCL and a CUDA runtime that only record their calls.

using namespace hgt;
using Catch::Contains;

namespace {

struct Asked {
  ncclResult_t answer = ncclSuccess;      ///< to every call
  ncclResult_t background = ncclSuccess;  ///< what ncclCommGetAsyncError finds
  int device = -1, rank = -1, size = -1, root = -1, blocking = -1, color = -2, key = -1;
  ncclUniqueId id{};
  std::size_t count = 0;
  ncclDataType_t type{};
  cudaStream_t stream = nullptr;
  std::string ended;
  std::string grouped;  ///< what is asked from ncclGroupStart to ncclGroupEnd
  bool groups = false;
  ncclComm_t comm = nullptr;  ///< of the last sum
  const void* in = nullptr;
  void* out = nullptr;
} g_asked;

float g_memory[16];  ///< of collectives by parts
std::uint16_t g_received[32];
hgt::ReceivedParts g_added;  ///< by add_received

const auto kComm = reinterpret_cast<ncclComm_t>(0x10), kPart = reinterpret_cast<ncclComm_t>(0x30);
const auto kStream = reinterpret_cast<cudaStream_t>(0x20);

/// Notes a call to or from a root in memory that begins at `begin`, of elements of `size` bytes.
void note_grouped(const void* in, const void* begin, int size, std::size_t count, int root) {
  const auto at = static_cast<const std::byte*>(in) - static_cast<const std::byte*>(begin);
  if (g_asked.groups)
    g_asked.grouped += std::to_string(count) + " at " + std::to_string(at / size) + " of rank " +
                       std::to_string(root) + ", ";
}

ncclResult_t collective(std::size_t count, ncclDataType_t type, cudaStream_t stream) {
  g_asked.count = count, g_asked.type = type, g_asked.stream = stream;
  return g_asked.answer;
}

}  // namespace

extern "C" {
cudaError_t cudaSetDevice(int device) {
  return g_asked.device = device, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaFree(void*) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "";
}
const char* cudaGetErrorName(cudaError_t) {
  return "";
}

const char* ncclGetErrorString(ncclResult_t) {
  return "in words";
}
const char* ncclGetLastError(ncclComm_t) {
  return "the details";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return std::memset(id, 7, sizeof *id), g_asked.answer;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  g_asked.size = size, g_asked.id = id, g_asked.rank = rank, g_asked.blocking = config->blocking;
  return *comm = kComm, g_asked.answer;
}
ncclResult_t ncclCommSplit(ncclComm_t, int color, int key, ncclComm_t* comm, ncclConfig_t* config) {
  g_asked.color = color, g_asked.key = key, g_asked.blocking = config ? config->blocking : -1;
  return *comm = color == NCCL_SPLIT_NOCOLOR ? nullptr : kPart, g_asked.answer;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* out) {
  return *out = g_asked.background, g_asked.answer;
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t, cudaStream_t stream) {
  g_asked.in = in, g_asked.out = out;
  return collective(count, type, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t, cudaStream_t stream) {
  g_asked.in = in, g_asked.out = out;
  return collective(count, type, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t, cudaStream_t stream) {
  if (in != out) return ncclInvalidArgument;
  note_grouped(in, g_memory, sizeof(float), count, root);
  return collective(count, type, stream);
}
ncclResult_t ncclGroupStart() {
  return g_asked.groups = true, ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return g_asked.groups = false, ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  g_asked.comm = comm;
  return collective(count, type, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t, cudaStream_t stream) {
  if (in != out) return ncclInvalidArgument;
  note_grouped(in, g_memory, 1, count, root);
  return g_asked.root = root, collective(count, type, stream);
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t, cudaStream_t stream) {
  g_asked.grouped += "send ";
  note_grouped(from, g_memory, 2, count, peer);
  return collective(count, type, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t,
                      cudaStream_t stream) {
  g_asked.grouped += "receive ";
  note_grouped(to, g_received, 2, count, peer);
  return collective(count, type, stream);
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return g_asked.ended += "finalize ", g_asked.answer;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return g_asked.ended += "destroy ", g_asked.answer;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  return g_asked.ended += "abort ", g_asked.answer;
}
}

namespace hgt {
void add_received(const ReceivedParts& of, std::span<const OwnedRange>, CudaStreamState&) {
  g_added = of;
}
}  // namespace hgt

namespace {

/// Rank 1 of 3 on device 2, while it connects to the others.
struct Connecting {
  Connecting() {
    g_asked = {};
    CudaCommId id;
    REQUIRE_FALSE(table.make_id(&id));
    REQUIRE_FALSE(table.start_connect(&id, 1, 3, 2, &comm));
    stream.device = 2;
    stream.stream = UniqueHandle<cudaStream_t, cudaStreamDestroy>(kStream);
  }

  const CudaCommTable& table = *cuda_comm_table();
  CudaCommState* comm = nullptr;
  CudaStreamState stream;
};

}  // namespace

TEST_CASE_METHOD(Connecting, "NCCL module: connecting does not block; poll says when it is over") {
  CHECK(g_asked.blocking == 0);
  CHECK(g_asked.device == 2);
  CHECK((g_asked.rank == 1 && g_asked.size == 3 && g_asked.id.internal[127] == 7));
  bool ready = true;
  g_asked.background = ncclInProgress;
  CHECK_FALSE(table.poll(comm, &ready));
  CHECK_FALSE(ready);
  g_asked.background = ncclSuccess;
  CHECK_FALSE(table.poll(comm, &ready));
  CHECK(ready);
  CHECK_FALSE(table.start_leave(comm));
  CHECK_FALSE(table.destroy(comm));
  CHECK(g_asked.ended == "finalize destroy ");
}

TEST_CASE_METHOD(Connecting,
                 "NCCL module: collectives go to their stream, in units of their type") {
  float floats[4];
  double doubles[5];
  CHECK_FALSE(table.sum(comm, floats, 4, DType::kF32, &stream));
  CHECK((g_asked.count == 4 && g_asked.type == ncclFloat32 && g_asked.stream == kStream));
  CHECK_FALSE(table.sum(comm, doubles, 5, DType::kF64, &stream));
  CHECK((g_asked.count == 5 && g_asked.type == ncclFloat64));
  CHECK_FALSE(table.sum(comm, floats, 6, DType::kBF16, &stream));
  CHECK((g_asked.count == 6 && g_asked.type == ncclBfloat16));
  CHECK_FALSE(table.sum(comm, floats, 7, DType::kF16, &stream));
  CHECK((g_asked.count == 7 && g_asked.type == ncclFloat16));
  CHECK_FALSE(table.all_gather(comm, floats, doubles, 6, &stream));
  CHECK((g_asked.count == 6 && g_asked.type == ncclUint8));
  CHECK_FALSE(table.broadcast(comm, floats, 7, 2, &stream));
  CHECK((g_asked.count == 7 && g_asked.type == ncclUint8 && g_asked.root == 2));
  CHECK_FALSE(table.abort(comm));
}

TEST_CASE_METHOD(Connecting, "NCCL module: a split gives a group that does not block, or none") {
  CudaCommState* part = nullptr;
  CHECK_FALSE(table.start_split(comm, 5, 1, 2, &part));
  CHECK((g_asked.color == 5 && g_asked.key == 1 && g_asked.device == 2));
  CHECK(g_asked.blocking == -1);  // as the first one
  REQUIRE(part != nullptr);
  float value = 0;
  CHECK_FALSE(table.sum(part, &value, 1, DType::kF32, &stream));
  CHECK(g_asked.comm == kPart);
  // It has two ranks, of which this is number 1: even parts are known by that.
  const std::vector<OwnedRange> parts{{{0, 4}, 0}, {{4, 8}, 1}};
  CHECK_FALSE(table.reduce_scatter(part, g_memory, DType::kF32, parts.data(), 2, &stream));
  CHECK((g_asked.count == 4 && g_asked.out == g_memory + 4));
  CHECK_FALSE(table.abort(part));

  part = comm;
  CHECK_FALSE(table.start_split(comm, -1, 0, 0, &part));
  CHECK(g_asked.color == NCCL_SPLIT_NOCOLOR);
  CHECK(part == nullptr);
  g_asked.answer = ncclInvalidUsage;
  CHECK(table.start_split(comm, 5, 1, 2, &part));
  g_asked.answer = ncclSuccess;
  CHECK_FALSE(table.abort(comm));
}

TEST_CASE_METHOD(Connecting, "NCCL module: even parts are one reduce-scatter or all-gather") {
  const std::vector<OwnedRange> parts{{{0, 4}, 0}, {{4, 8}, 1}, {{8, 12}, 2}};
  CHECK_FALSE(table.reduce_scatter(comm, g_memory, DType::kF32, parts.data(), 3, &stream));
  CHECK((g_asked.count == 4 && g_asked.type == ncclFloat32 && g_asked.stream == kStream));
  CHECK((g_asked.in == g_memory && g_asked.out == g_memory + 4));
  CHECK_FALSE(table.reduce_scatter(comm, g_memory, DType::kBF16, parts.data(), 3, &stream));
  CHECK((g_asked.count == 4 && g_asked.type == ncclBfloat16 && g_asked.out == g_memory + 2));
  CHECK_FALSE(table.all_gather_parts(comm, g_memory, parts.data(), 3, &stream));
  CHECK((g_asked.count == 4 && g_asked.type == ncclUint8 && g_asked.stream == kStream));
  CHECK((g_asked.in == g_memory + 1 && g_asked.out == g_memory));
  CHECK(g_asked.grouped.empty());
  CHECK_FALSE(table.abort(comm));
}

TEST_CASE_METHOD(Connecting, "NCCL module: other parts are a group of calls, one per part") {
  const std::vector<OwnedRange> uneven{{{0, 4}, 0}, {{4, 9}, 1}, {{9, 9}, 2}, {{9, 12}, 2}};
  CHECK_FALSE(table.reduce_scatter(comm, g_memory, DType::kF32, uneven.data(), 4, &stream));
  CHECK(g_asked.grouped == "4 at 0 of rank 0, 5 at 4 of rank 1, 3 at 9 of rank 2, ");
  CHECK((g_asked.type == ncclFloat32 && g_asked.stream == kStream && !g_asked.groups));
  g_asked.grouped.clear();
  const std::vector<OwnedRange> swapped{{{0, 4}, 0}, {{4, 8}, 2}, {{8, 12}, 1}};
  CHECK_FALSE(table.all_gather_parts(comm, g_memory, swapped.data(), 3, &stream));
  CHECK(g_asked.grouped == "4 at 0 of rank 0, 4 at 4 of rank 2, 4 at 8 of rank 1, ");
  CHECK((g_asked.type == ncclUint8 && g_asked.stream == kStream && !g_asked.groups));
  g_asked.grouped.clear();
  g_asked.answer = ncclInvalidUsage;
  CHECK(table.reduce_scatter(comm, g_memory, DType::kF32, uneven.data(), 4, &stream));
  CHECK(g_asked.grouped == "4 at 0 of rank 0, ");  // no more calls after the failure
  CHECK_FALSE(g_asked.groups);
  g_asked.answer = ncclSuccess;
  CHECK_FALSE(table.abort(comm));
}

TEST_CASE_METHOD(Connecting, "NCCL module: parts to add are exchanged as one group of calls") {
  const std::vector<OwnedRange> parts{{{0, 4}, 0}, {{4, 9}, 1}, {{9, 12}, 2}, {{12, 14}, 1}};
  CHECK_FALSE(
      table.exchange_parts(comm, g_memory, DType::kBF16, parts.data(), 4, g_received, &stream));
  CHECK(g_asked.grouped ==
        "send 4 at 0 of rank 0, receive 5 at 0 of rank 0, receive 5 at 7 of rank 2, "
        "send 3 at 9 of rank 2, receive 2 at 5 of rank 0, receive 2 at 12 of rank 2, ");
  CHECK((g_asked.type == ncclBfloat16 && g_asked.stream == kStream && !g_asked.groups));
  CHECK_FALSE(
      table.add_received_parts(comm, g_memory, DType::kF16, parts.data(), 4, g_received, &stream));
  CHECK((g_added.values == g_memory && g_added.received == g_received));
  CHECK((g_added.type == DType::kF16 && g_added.rank == 1 && g_added.ranks == 3));
  g_asked.grouped.clear();
  g_asked.answer = ncclInvalidUsage;
  CHECK(
      table.exchange_parts(comm, g_memory, DType::kBF16, parts.data() + 1, 3, g_received, &stream));
  CHECK(g_asked.grouped == "receive 5 at 0 of rank 0, ");  // no more calls after the failure
  CHECK_FALSE(g_asked.groups);
  g_asked.answer = ncclSuccess;
  CHECK_FALSE(table.abort(comm));
}

TEST_CASE_METHOD(Connecting,
                 "NCCL module: a lost peer is distinguished from a fault of this device") {
  bool ready = false;
  g_asked.background = ncclRemoteError;
  CudaResult failure = table.poll(comm, &ready);
  REQUIRE(failure);
  CHECK(failure->kind == static_cast<int>(ErrorKind::kPeer));
  CHECK_THAT(failure->message, Contains("in words: the details"));
  CHECK_THAT(failure->hint, Contains("NCCL_DEBUG"));
  g_asked.background = ncclUnhandledCudaError;
  failure = table.poll(comm, &ready);
  REQUIRE(failure);
  CHECK(failure->kind == static_cast<int>(ErrorKind::kDevice));
  g_asked.answer = ncclInvalidUsage;
  failure = table.abort(comm);  // ends the membership even so
  REQUIRE(failure);
  CHECK_THAT(failure->context, Contains("ncclCommAbort"));
}
