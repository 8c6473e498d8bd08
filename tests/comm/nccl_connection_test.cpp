#include "nccl_connection.h"

#include <catch2/catch.hpp>

#include "hgtrain/device/cuda_queue.h"

#include "support/fake_nccl.h"
#include "support/ranks.h"

using namespace hgt;

namespace {

using Catch::Contains;

/// A rank's connection to a group, over the fake NCCL.
struct Connected {
  Connected(const std::string& group, int size, const GroupOptions& options = {})
      : connection(fake_cuda::comm_table(), options, fake_cuda::join(group, 0, size)) {}
  ~Connected() { connection.abort(); }
  NcclConnection connection;
};

}  // namespace

TEST_CASE("NCCL: the first failure of a connection is kept, and calls after the end throw it") {
  Connected rank("fails", 1);
  CHECK(rank.connection.ready());
  rank.connection.check();
  rank.connection.fail(Error(ErrorKind::kPeer, "the first"));
  rank.connection.fail(Error(ErrorKind::kPeer, "the second"));
  CHECK(rank.connection.has_failed());
  CHECK_THROWS_WITH(rank.connection.check(), Contains("the first"));
  rank.connection.abort();
  CHECK_THROWS_WITH(rank.connection.ready(), Contains("the first"));
}

TEST_CASE("NCCL: no call is made once a rank has left") {
  Connected rank("leaves", 1);
  rank.connection.leave();
  CHECK_FALSE(rank.connection.has_failed());
  const auto call = [](CudaCommState*) -> CudaResult { throw std::logic_error("called"); };
  CHECK_THROWS_WITH(rank.connection.enter(call), Contains("aborted"));
}

TEST_CASE("NCCL: a wait for a peer ends at its deadline, or once the job is aborted") {
  const std::atomic<bool> aborted = GENERATE(false, true);
  const auto timeout = std::chrono::milliseconds(aborted ? 3'600'000 : 1);
  Connected rank(aborted ? "is aborted" : "waits", 2, {.timeout = timeout, .aborted = &aborted});
  CHECK_THROWS_WITH(rank.connection.wait_until_ready(rank.connection.deadline()),
                    Contains(aborted ? "aborted" : "did not arrive within 0.001 s"));
}

TEST_CASE("NCCL: an id of another size is refused") {
  MemoryChannel channel;
  channel.set("comm/world/nccl_id", "short");
  const CudaModule module = fake_cuda::module(nullptr, &fake_cuda::comm_table());
  const CudaQueue compute(Device::cuda(1), module);
  CHECK_THROWS_WITH(start_connecting(channel, compute, {.rank = 1, .size = 2}),
                    Contains("rank 0's id of the group has 5 bytes, expected 128"));
}
