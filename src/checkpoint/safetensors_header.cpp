#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/checked.h"
#include "hgtrain/checkpoint/safetensors.h"

namespace hgt {

namespace {

using nlohmann::json;

struct FileDType {
  std::string_view name;
  std::int64_t bytes;
  std::optional<DType> dtype;
};

constexpr FileDType kFileDTypes[] = {
    {"F64", 8, DType::kF64}, {"F32", 4, DType::kF32}, {"BF16", 2, DType::kBF16},
    {"F16", 2, DType::kF16}, {"I64", 8, DType::kI64}, {"I32", 4, DType::kI32},
    {"I16", 2, DType::kI16}, {"I8", 1, DType::kI8},   {"U16", 2, DType::kU16},
    {"U8", 1, DType::kU8},   {"U32", 4, {}},          {"U64", 8, {}},
    {"BOOL", 1, {}},         {"C64", 8, {}},          {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},      {"F8_E8M0", 1, {}},
};

/// A name in quotes, with control characters escaped as in JSON.
std::string in_quotes(const std::string& text) {
  return json(text).dump();
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorKind::kData, "the safetensors header is damaged: " + what);
}

/// Parses the JSON as events, so that a hostile header makes it allocate no more than is needed.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<TensorInfo> take() {
    if (where_ != kEnd) damaged("it ends early");
    return std::move(tensors_);
  }

  bool start_object(std::size_t) override {
    if (where_ == kStart) return enter(kTop);
    if (where_ != kTop) damaged(fmt::format("an object inside {}", in_quotes(name_)));
    if (name_ == "__metadata__") return enter(kMetadata);
    tensors_.emplace_back().name = name_;
    seen_ = 0;
    return enter(kTensor);
  }
  bool key(std::string& key) override {
    if (where_ != kTop) {
      key_ = key;
      return true;
    }
    if (!names_.insert(key).second) damaged(fmt::format("{} is there twice", in_quotes(key)));
    name_ = key;
    return true;
  }
  bool end_object() override {
    if (where_ == kTop) return enter(kEnd);
    if (where_ == kTensor && seen_ != 7)
      damaged(fmt::format("{} lacks dtype, shape or data_offsets", in_quotes(name_)));
    return enter(kTop);
  }
  bool start_array(std::size_t) override {
    if (where_ != kTensor) damaged("an unexpected array");
    if (key_ == "shape") return mark(2) && enter(kShape);
    if (key_ == "data_offsets") return mark(4) && enter(kOffsets);
    damaged(fmt::format("unknown key {} in {}", in_quotes(key_), in_quotes(name_)));
  }
  bool end_array() override {
    if (where_ == kOffsets && num_offsets_ != 2)
      damaged(fmt::format("offsets of {}", in_quotes(name_)));
    return enter(kTensor);
  }
  bool string(std::string& text) override {
    if (where_ == kMetadata) return true;
    if (where_ != kTensor || key_ != "dtype")
      damaged(fmt::format("a string in {}", in_quotes(name_)));
    tensors_.back().dtype_name = text;
    return mark(1);
  }
  bool number_unsigned(std::uint64_t value) override {
    const auto number = checked_cast<std::int64_t>(value, "a number of the header");
    TensorInfo* tensor = tensors_.empty() ? nullptr : &tensors_.back();
    if (where_ == kShape) {
      if (tensor->shape.size() == 32)
        damaged(fmt::format("{} has over 32 dimensions", in_quotes(name_)));
      tensor->shape.push_back(number);
    } else if (where_ == kOffsets && num_offsets_ < 2) {
      (num_offsets_ == 0 ? tensor->begin : tensor->end) = number;
      ++num_offsets_;
    } else {
      damaged(fmt::format("a number in {}", in_quotes(name_)));
    }
    return true;
  }

  bool null() override { damaged("a null"); }
  bool boolean(bool) override { damaged("a boolean"); }
  bool number_integer(std::int64_t) override { damaged("a negative number"); }
  bool number_float(double, const std::string&) override { damaged("a fraction"); }
  bool binary(json::binary_t&) override { damaged("binary data"); }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    damaged(fmt::format("no JSON at byte {}", at));
  }

 private:
  enum Where { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  bool enter(Where where) {
    if (where == kOffsets) num_offsets_ = 0;
    where_ = where;
    return true;
  }
  /// Each key of a tensor once: bit 1 dtype, 2 shape, 4 data_offsets.
  bool mark(unsigned bit) {
    if ((seen_ & bit) != 0)
      damaged(fmt::format("{} has {} twice", in_quotes(name_), in_quotes(key_)));
    seen_ |= bit;
    return true;
  }

  Where where_ = kStart;
  std::string name_, key_;
  unsigned seen_ = 0;
  int num_offsets_ = 0;
  std::set<std::string> names_;
  std::vector<TensorInfo> tensors_;
};

/// Looks the dtype up and checks the size against shape and dtype.
void check_tensor(TensorInfo& tensor) {
  const auto* dtype = std::find_if(std::begin(kFileDTypes), std::end(kFileDTypes),
                                   [&](const FileDType& d) { return d.name == tensor.dtype_name; });
  if (dtype == std::end(kFileDTypes))
    damaged(fmt::format("{} has the unknown dtype {}", in_quotes(tensor.name),
                        in_quotes(tensor.dtype_name)));
  tensor.dtype = dtype->dtype;
  const std::int64_t bytes = checked_mul(tensor.numel(), dtype->bytes, "the size of a tensor");
  if (tensor.begin > tensor.end || tensor.end - tensor.begin != bytes)
    damaged(fmt::format("{} of shape {} and dtype {} does not take the bytes {} to {}",
                        in_quotes(tensor.name), shape_text(tensor.shape), tensor.dtype_name,
                        tensor.begin, tensor.end));
}

}  // namespace

std::int64_t TensorInfo::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count = checked_mul(count, n, "the size of a tensor");
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::int64_t data_bytes) {
  HeaderReader reader;
  json::sax_parse(text, &reader);
  std::vector<TensorInfo> tensors = reader.take();
  for (TensorInfo& tensor : tensors) check_tensor(tensor);
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != at)
      damaged(fmt::format("{} starts at byte {} of the data, not at {}", in_quotes(tensor.name),
                          tensor.begin, at));
    at = tensor.end;
  }
  if (at != data_bytes)
    damaged(fmt::format("its tensors take {} bytes, the file has {}", at, data_bytes));
  return tensors;
}

}  // namespace hgt
