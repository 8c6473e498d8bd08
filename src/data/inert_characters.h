#pragma once

namespace hgt {

/// Whether HF's normalizers leave a character alone that newer ones decompose, compose or reorder.
/// Their tables stand at Unicode 9, so these are the characters of later versions (to 18) that have
/// a decomposition or a combining class, and those that compositions with them begin with.
bool is_inert(char32_t code_point);

}  // namespace hgt
