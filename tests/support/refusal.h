#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

/// The text of the Error(kConfig) that `act` throws.
template <class Act>
std::string refusal(const Act& act) {
  try {
    act();
  } catch (const hgt::Error& error) {
    CHECK(error.kind() == hgt::ErrorKind::kConfig);
    return error.render();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
