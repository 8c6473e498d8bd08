#include "file_receiver.h"

#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "agent_host.h"
#include "file_sender.h"
#include "launcher_process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

template <class Act>
std::optional<ErrorKind> kind_of(const Act& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.kind();
  }
  return std::nullopt;
}

std::string text_of(std::int64_t bytes, char seed) {
  std::string out(static_cast<std::size_t>(bytes), seed);
  for (std::size_t i = 0; i < out.size(); i += 1000) out[i] = static_cast<char>(i / 1000);
  return out;
}

/// A launcher that has a file of 10 MiB and an empty one, and a host that works in another folder.
struct Push {
  Push() {
    make_folders(here / "data");
    write_new_file(here / "data/tokens", content);
    write_new_file(here / "data/empty", "");
    write_new_file(here / "weights", "weights");
    source = here / "data/tokens";
    // As a job in the folder `here` names its files.
    files.for_all = {source, here / "data/empty"};
    files.with_run_folder = {here / "weights"};
  }

  /// What the host answers. It works in `there`, where files have the names that they have below
  /// `here`. The launcher answers no more than `parts` times.
  std::string run(std::size_t parts = 1000, bool has_mark = true) {
    AgentHost host;
    FileSender sender(host.io, files, there.path(), has_mark ? "" : "mark");
    PushFiles order = sender.order();
    order.host = "b";
    for (std::string& path : order.files) path = path.substr(here.path().size() + 1);
    host.link->send(order);
    std::size_t answered = 0;
    pulled = 0;
    host.run_until([&] {
      for (; answered < host.frames.size(); ++answered) {
        const Frame& frame = host.frames[answered];
        if (frame.kind != MessageKind::kPullPart && frame.kind != MessageKind::kPullHash) continue;
        if (is_of_tokens(frame) && pulled++ >= parts) return true;
        if (change && pulled == 3) write_file_atomically(source, text_of(10 * kMiB, 'y'));
        const auto send = [&](const auto& message) { host.link->send(message); };
        sender.answer(frame, {send, send});
      }
      return !host.all<FilesReady>().empty();
    });
    notices.clear();
    for (const Notice& notice : host.all<Notice>()) notices.push_back(notice.text);
    return host.all<FilesReady>().empty() ? "interrupted" : host.all<FilesReady>()[0].why;
  }

  bool is_of_tokens(const Frame& frame) const {
    return frame.kind == MessageKind::kPullPart &&
           decode_payload<PullPart>(frame.payload).file == 0;
  }

  std::vector<std::string> parts() const {
    std::vector<std::string> out;
    for (const std::string& name : list_folder(there / "data"))
      if (name.find(".part-") != std::string::npos) out.push_back(there / ("data/" + name));
    return out;
  }

  const TemporaryFolder here, there;
  const std::string content = text_of(10 * kMiB, 'x');
  std::string source;
  PushedFiles files;
  bool change = false;
  std::size_t pulled = 0;  // parts of tokens
  std::vector<std::string> notices;
};

}  // namespace

TEST_CASE("a host gets the files that it lacks, and none again") {
  Push push;
  CHECK(push.run().empty());
  CHECK(push.pulled == 10);
  CHECK(push.notices == std::vector{fmt::format(
                            "host b lacks {}, {}, {}: sending 10.0 MiB", push.there / "data/tokens",
                            push.there / "data/empty", push.there / "weights")});
  CHECK(read_file(push.there / "data/tokens", 20 * kMiB) == push.content);
  CHECK(read_file(push.there / "data/empty", kMiB).empty());
  CHECK(read_file(push.there / "weights", kMiB) == "weights");
  CHECK(push.parts().empty());
  CHECK(push.run().empty());
  CHECK(push.pulled == 0);
  CHECK(push.notices.empty());
  std::filesystem::remove(push.there / "weights");
  CHECK(push.run().empty());
  CHECK(push.notices ==
        std::vector{fmt::format("host b lacks {}: sending 1 KiB", push.there / "weights")});
}

TEST_CASE("a file may be dated before 1970") {
  Push push;
  const timespec times[2] = {{-2, 500'000'000}, {-2, 500'000'000}};
  REQUIRE(utimensat(AT_FDCWD, push.source.c_str(), times, 0) == 0);
  CHECK(push.run().empty());
  struct stat status {};
  REQUIRE(stat((push.there / "data/tokens").c_str(), &status) == 0);
  CHECK(modified_ns(status) == -1'500'000'000);
}

TEST_CASE("weights are for hosts that see the run folder") {
  Push push;
  CHECK(push.run(1000, /*has_mark=*/false).empty());
  CHECK_FALSE(path_exists(push.there / "weights"));
  write_new_file(push.there / "mark", "");
  CHECK(push.run(1000, /*has_mark=*/false).empty());
  CHECK(path_exists(push.there / "weights"));
}

TEST_CASE("what was interrupted continues where it was, and is checked as a whole") {
  Push push;
  CHECK(push.run(4) == "interrupted");
  REQUIRE(push.parts().size() == 1);
  const std::string part = push.parts()[0];
  const auto got = std::filesystem::file_size(part);
  CHECK(got >= 1 * kMiB);
  CHECK(got <= 4 * kMiB);
  SECTION("whole") {
    CHECK(push.run().empty());
    CHECK(push.pulled == 10 - got / kMiB);
    CHECK_THAT(push.notices.at(0),
               Catch::EndsWith(fmt::format("sending the remaining {}.0 MiB", 10 - got / kMiB)));
    CHECK(read_file(push.there / "data/tokens", 20 * kMiB) == push.content);
  }
  SECTION("longer than the file") {
    std::filesystem::resize_file(part, 11 * kMiB);
    CHECK(push.run().empty());
    CHECK(push.pulled == 10);
    CHECK_THAT(push.notices.at(0), Catch::EndsWith("sending 10.0 MiB"));
    CHECK(read_file(push.there / "data/tokens", 20 * kMiB) == push.content);
  }
  SECTION("damaged meanwhile") {
    File::open(part, O_WRONLY).write("!");
    CHECK(has(push.run(), "did not arrive whole"));
    CHECK(push.parts().empty());
    CHECK(push.run().empty());
    CHECK(push.pulled == 10);
  }
}

TEST_CASE(
    "what is left of an interrupted transfer goes once it is of no use, unless it is in use") {
  Push push;
  CHECK(push.run(4) == "interrupted");
  const std::string part = push.parts().at(0);
  SECTION("the file has changed") {
    write_file_atomically(push.source, text_of(9 * kMiB, 'y'));
    CHECK(push.run(4) == "interrupted");
    REQUIRE(push.parts().size() == 1);
    CHECK(push.parts()[0] != part);
  }
  SECTION("the file has come in another way") {
    write_new_file(push.there / "data/tokens", push.content);
    CHECK(push.run().empty());
    CHECK(push.parts().empty());
  }
  SECTION("another job writes it") {
    const std::string other = push.there / "data/tokens.part-0123456789abcdef";
    rename_path(part, other);
    const File open = File::open(other, O_RDWR);
    REQUIRE(::flock(open.fd(), LOCK_EX | LOCK_NB) == 0);
    CHECK(push.run().empty());
    CHECK(push.parts() == std::vector{other});
  }
  SECTION("a file that only has such a name") {
    const std::string other = push.there / "data/tokens.part-2";
    write_new_file(other, "mine");
    CHECK(push.run().empty());
    CHECK(push.parts() == std::vector{other});
  }
}

TEST_CASE("a file that changes while it is sent does not get its name") {
  Push push;
  push.change = true;
  CHECK(has(push.run(), "has changed"));
  CHECK_FALSE(path_exists(push.there / "data/tokens"));
}

TEST_CASE("a file of the same size is compared, and one with other content is kept") {
  Push push;
  make_folders(push.there / "data");
  SECTION("the same of another time") {
    write_new_file(push.there / "data/tokens", push.content);
    CHECK(push.run().empty());
  }
  SECTION("another") {
    const std::string other = text_of(10 * kMiB, 'z');
    write_new_file(push.there / "data/tokens", other);
    CHECK(has(push.run(), "is another file there"));
    CHECK(read_file(push.there / "data/tokens", 20 * kMiB) == other);
  }
  SECTION("of another size") {
    write_new_file(push.there / "data/tokens", "short");
    CHECK(has(push.run(),
              "has 5 bytes there, and 10485760 here; if it is removed there, this one is sent"));
  }
  CHECK(push.pulled == 0);
}

TEST_CASE("the host's answer names what cannot be written") {
  Push push;
  write_new_file(push.there / "data", "a file in place of the folder");
  CHECK(has(push.run(), push.there / "data"));
}

TEST_CASE("two jobs do not write the same file") {
  Push push;
  CHECK(push.run(4) == "interrupted");
  const File part = File::open(push.parts().at(0), O_RDWR);
  REQUIRE(::flock(part.fd(), LOCK_EX | LOCK_NB) == 0);
  CHECK(has(push.run(), "another job is sending"));
}

TEST_CASE("a launcher refuses to read what does not belong to a file of the job") {
  Push push;
  asio::io_context io;
  FileSender sender(io, push.files, "", "");
  const auto ask = [&](const PullPart& wanted) {
    return kind_of([&] { sender.answer({PullPart::kKind, encode_payload(wanted)}, {}); });
  };
  for (const PullPart& wanted :
       {PullPart{3, 0, 1}, PullPart{-1, 0, 1}, PullPart{0, -1, 1}, PullPart{0, 10 * kMiB, 1},
        PullPart{0, 0, 0}, PullPart{0, 0, 8 << 20}, PullPart{1, 0, 1}})
    CHECK(ask(wanted) == ErrorKind::kPeer);
  std::filesystem::resize_file(push.source, 5);
  CHECK(ask({0, 0, 100}) == ErrorKind::kData);
  std::filesystem::remove(push.source);
  CHECK(kind_of([&] { FileSender(io, push.files, "", ""); }) == ErrorKind::kData);
}

TEST_CASE("an agent ends a stream on which files come that it has not asked for") {
  AgentHost host;
  SECTION("without an order") {
    host.link->send(FilePart{0, 0, "x"});
  }
  SECTION("an order whose lists differ") {
    host.link->send(PushFiles{"b", "", {"a"}, {}, {}, 1, ""});
  }
  SECTION("another part") {
    const TemporaryFolder there;
    host.link->send(PushFiles{"b", there.path(), {"a"}, {10}, {0}, 1, ""});
    host.wait_for<PullPart>();
    host.link->send(FilePart{0, 5, "x"});
  }
  SECTION("a hash before the file") {
    const TemporaryFolder there;
    host.link->send(PushFiles{"b", there.path(), {"a"}, {10}, {0}, 1, ""});
    host.wait_for<PullPart>();
    host.link->send(FileHash{0, 5});
  }
  host.run_until([&] { return host.ended && host.lost; });
  CHECK(host.ended != "its connection has ended");
}
