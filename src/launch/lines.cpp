#include "lines.h"

namespace hgt {

std::string_view whole_characters(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t at = limit;
  while (at > limit - 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(0, at);
}

std::vector<std::string> brief(std::vector<std::string> lines) {
  constexpr std::ptrdiff_t kLines = 3;
  constexpr std::size_t kBytes = 160;
  if (std::ssize(lines) > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  for (std::string& line : lines)
    if (line.size() > kBytes) line = std::string(whole_characters(line, kBytes)) + " ...";
  return lines;
}

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
      end = whole_characters(text, kMaxPieceBytes).size() - 1;
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
  text = whole_characters(text, kMaxLineBytes);
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
