#include "hgtrain/launch/job_client.h"

#include <functional>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/owned_fd.h"

#include "job_messages.h"
#include "socket_address.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// A launcher that says `answer` to its first client, and ends.
class Answerer {
 public:
  Answerer(const std::string& folder, std::string answer)
      : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const OwnedFd opened(open_folder(folder));
    const SocketAddress address(opened.get());
    REQUIRE(bind(listener_.get(), address.get(), address.size()) == 0);
    REQUIRE(listen(listener_.get(), 1) == 0);
    thread_ = std::thread([this, answer = std::move(answer)] {
      const OwnedFd client(accept(listener_.get(), nullptr, nullptr));
      char byte;
      (void)!recv(client.get(), &byte, 1, 0);
      (void)!send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
  }
  ~Answerer() { thread_.join(); }

 private:
  const OwnedFd listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("nobody listens in the folder of a run that has ended") {
  const TemporaryFolder folder;
  CHECK_FALSE(JobClient::connect(folder.path()));
}

TEST_CASE("a launcher that ends instead of answering has no status") {
  const TemporaryFolder folder;
  const Answerer launcher(folder.path(), "");
  auto client = JobClient::connect(folder.path());
  CHECK_FALSE(client->status());
  client->wait_for_end();
}

TEST_CASE("an answer that cannot be understood is an error") {
  const TemporaryFolder folder;
  const auto [answer, error] = GENERATE(table<std::string, std::string>({
      {frame_of(JobStopping{}), "its answer does not fit the request; is it another version?"},
      {frame_of(JobRefusal{"it is full"}), "it is full"},
      {frame_of(JobStatus{"[1]"}), "damaged"},
      {encode_frame(MessageKind::kJobStatus, "x"), "damaged"},
      {"HTTP/1.1 400", "a frame claims"},
  }));
  const Answerer launcher(folder.path(), answer);
  auto client = JobClient::connect(folder.path());
  CHECK_THROWS_WITH(client->status(), Catch::Contains(error));
}
