#pragma once

#include <string>

namespace hgt {

/// The tokenizer.json that ByteTokenizer::save writes: a byte-level BPE without merges whose ids
/// are the bytes. from_folder() knows the byte tokenizer by it.
std::string byte_tokenizer_json();

}  // namespace hgt
