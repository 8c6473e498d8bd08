#include "writer_thread.h"

#include <cerrno>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

#include "hgtrain/base/file_ops.h"

namespace hgt {

WriterThread::WriterThread(asio::io_context& io, std::function<void()> has_room)
    : io_(io), has_room_(std::move(has_room)) {}

WriterThread::~WriterThread() {
  thread_.run([] {}).wait();
}

void WriterThread::add(std::size_t bytes, std::function<void()> task) {
  waiting_bytes_ += bytes;
  thread_.run([this, bytes, task = std::move(task), loop = asio::make_work_guard(io_)] {
    task();
    // One step, because the loop adds meanwhile, and may then wait for this call.
    const std::size_t before = waiting_bytes_.fetch_sub(bytes);
    if (before > kFullBytes && before - bytes <= kFullBytes) post(has_room_);
  });
}

std::pair<std::size_t, int> WriterThread::write(int fd, std::string_view text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = file_ops().write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return {done, errno};
    done += static_cast<std::size_t>(written);
  }
  return {text.size(), 0};
}

void WriterThread::post(std::function<void()> report) {
  asio::post(io_, std::move(report));
}

}  // namespace hgt
