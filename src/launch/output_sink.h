#pragma once

#include <string_view>

namespace hgt {

/// Shows the workers' output. A writer must not read more output while is_full() is true.
class OutputSink {
 public:
  enum Stream { kOut = 0, kErr = 1 };

  virtual ~OutputSink() = default;
  /// What a rank has printed: any bytes, not only whole lines.
  virtual void write(int rank, Stream stream, std::string_view text) = 0;
  /// The rank prints nothing more.
  virtual void end(int rank) = 0;
  virtual bool is_full() const = 0;
};

}  // namespace hgt
