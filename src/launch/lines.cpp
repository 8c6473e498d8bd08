#include "lines.h"

namespace hgt {
namespace {

/// Where to cut `text` after at most `limit` bytes without cutting a UTF-8 character.
std::size_t cut_at(std::string_view text, std::size_t limit) {
  std::size_t at = limit;
  while (at > limit - 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

void LineCutter::emit(std::string_view text, const Sink& sink) {
  sink({text, mid_line_ || (after_return_ && text == "\n")});
  after_return_ = text.back() == '\r';
  mid_line_ = text.back() != '\r' && text.back() != '\n';
}

void LineCutter::feed(std::string_view bytes, const Sink& sink) {
  const std::size_t searched = rest_.size();
  rest_.append(bytes);
  std::string_view text = rest_;
  std::size_t from = searched;
  for (;;) {
    std::size_t end = text.find_first_of("\r\n", from);
    if (end == std::string_view::npos) {
      if (text.size() <= kMaxPieceBytes) break;
      end = cut_at(text, kMaxPieceBytes) - 1;
    } else if (text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n') {
      ++end;
    }
    emit(text.substr(0, end + 1), sink);
    text.remove_prefix(end + 1);
    from = 0;
  }
  rest_.erase(0, rest_.size() - text.size());
}

void LineCutter::finish(const Sink& sink) {
  if (rest_.empty() && !mid_line_ && !after_return_) return;
  emit(rest_ + "\n", sink);
  rest_.clear();
}

void LastLines::add(const Piece& piece) {
  std::string_view text = piece.text;
  const bool is_progress = text.back() == '\r';
  const bool ends = is_progress || text.back() == '\n';
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  if (text.size() > kMaxLineBytes) text = text.substr(0, cut_at(text, kMaxLineBytes));
  if (piece.continues) {  // the end of a line of which enough is there
    replace_ = replace_ && !ends;
    return;
  }
  if (replace_ && !lines_.empty())
    lines_.back() = text;
  else
    lines_.emplace_back(text);
  replace_ = is_progress;
  if (lines_.size() > kLines) lines_.pop_front();
}

}  // namespace hgt
