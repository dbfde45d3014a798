// The implementation of `trireme data prepare` and `trireme data decode`: text into token files and
// back.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/function_ref.h"
#include "trireme/data/sidecar.h"

#include "runtime/data/prepare/encoder.h"

namespace trireme::data {

enum class TextFormat {
  automatic,  // JSON lines by the name or the beginning of a file, otherwise text
  text,       // a file is a document
  jsonl       // a line is a JSON object with the text of a document
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and pipes; "-": standard input
  std::string prefix;               // prefix of the files to write
  TextFormat format = TextFormat::automatic;
  std::vector<std::string> json_keys{"text"};  // their texts, joined by a newline, are a document
  bool prepend_bos = false, append_eod = false;
  int workers = 1;
  int stop_file = -1;  // the work ends with an Error once it can be read; borrowed
};

/// What is wrong with the options: a token that the encoder does not have, keys that are none or
/// there twice, a PREFIX.json that is not a sidecar, a directory that cannot be written to, inputs
/// that are missing or empty. Returns the bytes of the inputs, 0 where there is a pipe. Throws:
/// Error.
Index check(const PrepareOptions& options, const TextEncoder& encoder);

/// Writes PREFIX.bin, PREFIX.json and PREFIX.idx completely or not at all; the bytes do not depend
/// on the number of workers. Documents without text are left out. Calls `progress` with the bytes
/// read of the inputs and all of them, 0 where there is a pipe. Holds at most 4 MiB of text for
/// each worker and 16 MiB, or one larger document and the next one, its tokens, and what a
/// Tokenizer::Scratch holds. Throws: Error that names the file and line, also of a document that
/// free memory cannot hold.
Sidecar prepare_text(const PrepareOptions& options, const TextEncoder& encoder,
                     FunctionRef<void(Index done, Index total)> progress);

/// The text of tokens [begin, end) of a file. Throws: Error when the sidecar names another
/// tokenizer, or a token is outside the vocabulary.
std::string decode_tokens(const TokenFile& file, Index begin, Index end,
                          const TextEncoder& encoder);
/// The text of a document, counted from 1, without the tokens that prepare_text() added.
std::string decode_document(const TokenFile& file, Index document, const TextEncoder& encoder);

}  // namespace trireme::data
