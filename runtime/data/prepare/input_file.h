// TextStream: the text of a file, which may be compressed by gzip, bzip2, xz or zstd, recognised by
// how it begins.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::data {

// InputFile: the bytes of a file or a pipe, in order.

/// Interrupts a read that waits, from another thread.
class Interruption {
 public:
  /// `file`: once it can be read, as a signalfd can, reading ends too; -1: none. It is borrowed.
  explicit Interruption(int file);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void interrupt();
  /// Waits until `descriptor` can be read. Throws: Error when it is interrupted.
  void wait_for(int descriptor) const;
  /// Does not wait. Throws: Error when it is interrupted.
  void check() const;

 private:
  int outer_, inner_ = -1;
};

/// "-" is standard input.
class InputFile {
 public:
  /// Throws: Error with the name and the system's reason.
  InputFile(const std::string& path, const Interruption& interruption);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// For messages.
  const std::string& name() const { return name_; }
  /// The next bytes; empty at the end. Valid until the next call. Throws: Error.
  std::string_view next();
  /// The first bytes, at least `bytes` of them where there are so many. Before next().
  std::string_view peek(std::size_t bytes);
  /// Bytes that next() has returned.
  Index position() const { return position_; }

 private:
  bool read_more();

  std::string name_;
  const Interruption& interruption_;
  std::vector<char> buffer_;
  int descriptor_;  // opened last: nothing after it fails
  std::size_t filled_ = 0;
  Index position_ = 0;
};

/// The bytes of a file; 0 of a pipe. Opens nothing. Throws: Error when it is neither, is not there,
/// or is an empty file.
Index check_input(const std::string& path);

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
