// TextStream: the text of a file, which may be compressed by gzip, bzip2, xz or zstd, recognised by
// how it begins.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/data/prepare/input_file.h"

namespace trireme::data {

class TextStream {
 public:
  virtual ~TextStream() = default;
  /// Fills `out` as far as there is text. Returns the bytes; 0 at the end. Throws: Error that names
  /// the file and the byte where it cannot be read, is truncated or damaged.
  virtual Index read(char* out, Index most) = 0;
  virtual bool is_compressed() const { return true; }
};

/// `file` is borrowed.
std::unique_ptr<TextStream> open_text(InputFile& file);

/// The end of a file's name that says how it is compressed, such as ".gz"; "" where none does.
std::string_view compressed_ending(std::string_view name);

}  // namespace trireme::data
