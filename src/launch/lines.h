#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// A piece of a program's output that is written at once: it ends with '\n', or with '\r' (a
/// progress line), or is a part of a very long line.
struct Piece {
  std::string_view text;
  bool continues = false;  ///< the previous piece did not end the line, so no prefix goes here
};

/// Cuts a stream of output, fed in reads of any size, into pieces. Bytes are never changed, so what
/// is split between two reads (a UTF-8 character, say) is whole again. Holds at most
/// kMaxPieceBytes.
class LineCutter {
 public:
  static constexpr std::size_t kMaxPieceBytes = 64 << 10;
  using Sink = std::function<void(const Piece&)>;

  void feed(std::string_view bytes, const Sink& sink);
  /// The stream has ended: gives what is left, with the newline it lacks.
  void finish(const Sink& sink);

 private:
  void emit(std::string_view text, const Sink& sink);
  std::string rest_;
  bool after_return_ = false;  // the last piece ended with '\r': a '\n' now is its second half
  bool mid_line_ = false;      // the last piece was a part of a long line
};

/// The start of `text`: at most `limit` (at least 4) bytes, and no UTF-8 character cut.
std::string_view whole_characters(std::string_view text, std::size_t limit);

/// The lines that the verdict shows of a log with many or long lines: the last three, each
/// shortened.
std::vector<std::string> brief(std::vector<std::string> lines);

/// The last lines of a rank, for the verdict. A progress line is replaced by the next one.
class LastLines {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kMaxLineBytes = 2000;

  void add(const Piece& piece);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
  bool replace_ = false;  // the last one is a progress line
};

}  // namespace hgt
