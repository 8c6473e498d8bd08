#pragma once

#include <optional>
#include <utility>

#include "hgtrain/base/error.h"

namespace hgt {

/// What is wrong with an input, so that the user learns of all at once.
class ErrorList {
 public:
  void add(Error error) {
    if (all_)
      all_->also(std::move(error));
    else
      all_ = std::move(error);
  }
  /// Adds a note to the errors, if there are any.
  void note(std::string text) {
    if (all_) all_->note(std::move(text));
  }
  /// The first, with the others added to it; nullptr if nothing is wrong.
  const Error* all() const { return all_ ? &*all_ : nullptr; }
  void throw_if_any() const {
    if (all_) throw *all_;
  }

 private:
  std::optional<Error> all_;
};

}  // namespace hgt
