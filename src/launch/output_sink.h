#pragma once

#include <string_view>

namespace hgt {

/// Where the workers' output is shown. Who writes looks at is_full() before it reads more.
class OutputSink {
 public:
  enum Stream { kOut = 0, kErr = 1 };

  virtual ~OutputSink() = default;
  virtual void write(Stream stream, std::string_view text) = 0;
  virtual bool is_full() const = 0;
};

}  // namespace hgt
