#include "file_sender.h"

#include <cerrno>
#include <span>
#include <sys/stat.h>
#include <utility>

#include "hgtrain/base/file.h"

#include "file_receiver.h"
#include "hash_file.h"

namespace hgt {
namespace {

constexpr std::int32_t kMaxPartBytes = 4 << 20;

}  // namespace

FileSender::FileSender(asio::io_context& io, const PushedFiles& files, const std::string& folder,
                       const std::string& mark)
    : io_(io) {
  order_.folder = folder;
  order_.mark = mark;
  order_.files = files.for_all;
  order_.for_all = static_cast<std::int32_t>(files.for_all.size());
  for (const std::string& path : files.with_run_folder) order_.files.push_back(path);
  for (const std::string& path : order_.files) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw_file_error("read", path, errno);
    sources_.push_back({.path = path});
    order_.sizes.push_back(status.st_size);
    order_.times_ns.push_back(modified_ns(status));
  }
}

FileSender::Source& FileSender::source(std::int32_t number) {
  if (number < 0 || number >= std::ssize(sources_)) refuse_payload();
  return sources_[static_cast<std::size_t>(number)];
}

void FileSender::answer(const Frame& frame, const Answers& answers) {
  if (frame.kind == MessageKind::kPullHash)
    return send_hash(decode_payload<PullHash>(frame.payload).file, answers.hash);
  const auto wanted = decode_payload<PullPart>(frame.payload);
  const Source& from = source(wanted.file);
  const std::int64_t size = order_.sizes[static_cast<std::size_t>(wanted.file)];
  if (wanted.bytes < 1 || wanted.bytes > kMaxPartBytes || wanted.offset < 0 ||
      wanted.offset > size - wanted.bytes)
    refuse_payload();
  FilePart part{wanted.file, wanted.offset,
                std::string(static_cast<std::size_t>(wanted.bytes), '\0')};
  File::open(from.path, O_RDONLY)
      .read_at(wanted.offset, std::as_writable_bytes(std::span(part.bytes)));
  answers.part(part);
}

void FileSender::send_hash(std::int32_t number, const std::function<void(const FileHash&)>& send) {
  Source& from = source(number);
  if (from.hash) return send({number, *from.hash});
  from.waiting.push_back(send);
  if (from.waiting.size() > 1) return;
  const auto reply = [this, number](std::optional<std::uint64_t> hash) {
    Source& read = source(number);
    read.hash = hash;
    for (const auto& waiting : std::exchange(read.waiting, {})) waiting({number, hash.value_or(0)});
  };
  // Without a hash nothing compares equal to what was sent.
  hash_file(io_, from.path, reply, [reply](const Error&) { reply(std::nullopt); });
}

}  // namespace hgt
