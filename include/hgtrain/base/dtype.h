#pragma once

#include <cstddef>
#include <string_view>

namespace hgt {

/// Element types of tensors and files.
enum class DType { kF32, kF64, kBF16, kF16, kU8, kI8, kU16, kI16, kI32, kI64 };

/// The size of one element in bytes.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kU16:
    case DType::kI16:
      return 2;
    case DType::kU8:
    case DType::kI8:
      return 1;
  }
  return 0;
}

/// "fp32", "bf16", "fp16", "fp64", "uint8", "int8", "uint16", "int16", "int32", "int64".
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kF64:
      return "fp64";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    case DType::kU8:
      return "uint8";
    case DType::kI8:
      return "int8";
    case DType::kU16:
      return "uint16";
    case DType::kI16:
      return "int16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
  }
  return "?";
}

}  // namespace hgt
