#include "writer_thread.h"

#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

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

void WriterThread::post(std::function<void()> report) {
  asio::post(io_, std::move(report));
}

}  // namespace hgt
