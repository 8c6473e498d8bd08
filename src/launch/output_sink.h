#pragma once

#include <string_view>

namespace hgt {

/// Where the workers' output is shown. Who writes looks at is_full() before it reads more.
class OutputSink {
 public:
  enum Stream { kOut = 0, kErr = 1 };

  virtual ~OutputSink() = default;
  /// What a rank has printed: any bytes, not only whole lines.
  virtual void write(int rank, Stream stream, std::string_view text) = 0;
  /// The rank has printed its last.
  virtual void end(int rank) = 0;
  virtual bool is_full() const = 0;
};

}  // namespace hgt
