#include <cstring>
#include <type_traits>

#include "hgtrain/data/token_file.h"

namespace hgt {

std::size_t size_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
    case TokenType::kFloat32:
      return 4;
    case TokenType::kInt64:
    case TokenType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view name_of(TokenType type) {
  constexpr std::string_view kNames[] = {"",      "uint8",   "int8",    "int16",  "int32",
                                         "int64", "float64", "float32", "uint16", "uint32"};
  return kNames[static_cast<std::size_t>(type)];
}

namespace {

/// Whether `value` is a whole number in [0, limit), and then which.
template <class T>
bool is_id(T value, std::int64_t limit, std::int32_t& id) {
  if constexpr (std::is_floating_point_v<T>)
    if (!(value >= 0 && value < T{2147483648.0}))
      return false;  // NaN too; the cast is then defined
  const auto whole = static_cast<std::int64_t>(value);
  id = static_cast<std::int32_t>(whole);
  return whole >= 0 && whole < limit && static_cast<T>(whole) == value;
}

template <class T>
std::size_t convert(std::span<const std::byte> bytes, std::span<std::int32_t> tokens,
                    std::int64_t limit) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (!is_id(value, limit, tokens[i])) return i;
  }
  return tokens.size();
}

}  // namespace

std::size_t convert_tokens(TokenType type, std::span<const std::byte> bytes,
                           std::span<std::int32_t> tokens, std::int64_t limit) {
  switch (type) {
    case TokenType::kUint8:
      return convert<std::uint8_t>(bytes, tokens, limit);
    case TokenType::kInt8:
      return convert<std::int8_t>(bytes, tokens, limit);
    case TokenType::kInt16:
      return convert<std::int16_t>(bytes, tokens, limit);
    case TokenType::kInt32:
      return convert<std::int32_t>(bytes, tokens, limit);
    case TokenType::kInt64:
      return convert<std::int64_t>(bytes, tokens, limit);
    case TokenType::kFloat64:
      return convert<double>(bytes, tokens, limit);
    case TokenType::kFloat32:
      return convert<float>(bytes, tokens, limit);
    case TokenType::kUint16:
      return convert<std::uint16_t>(bytes, tokens, limit);
    case TokenType::kUint32:
      return convert<std::uint32_t>(bytes, tokens, limit);
  }
  return 0;
}

}  // namespace hgt
