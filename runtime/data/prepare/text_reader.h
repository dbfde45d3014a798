// TextReader: the documents of text files and of JSON lines, in batches that are worked on apart
// from each other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/prepare/input_file.h"
#include "runtime/data/prepare/prepare_text.h"

namespace trireme::data {

/// The longest document, or JSON line.
constexpr Index most_document_bytes = Index{1} << 30;
constexpr Index batch_bytes = Index{1} << 20;

/// Whole lines of JSON, or text: a document, or a part of one.
struct TextBatch {
  std::string name;  // name of the file, for messages
  bool json = false;
  Index first_line = 1;       // number of the first line in the file, from 1
  bool ends_document = true;  // false where text goes on in the next batch
  std::string text;
  Index position = 0;  // bytes of all files that have been read so far
};

/// Looks at how a file begins, within compressed data too: what is no text would become a corpus of
/// rubbish without a word. Throws: Error that says what it is, or as reading it does.
void require_text(const std::string& path);

class TextReader {
 public:
  struct Limits {
    Index batch = batch_bytes, document = most_document_bytes;
    std::string why = "the longest document";  // Limits::document is what it is
  };
  /// `may_cut`: text comes in parts of Limits::batch, otherwise as whole documents.
  TextReader(std::vector<std::string> inputs, TextFormat format, bool may_cut,
             const Interruption& interruption, Limits limits);

  /// Returns none at the end. Throws: Error that names the file, and the line.
  std::optional<TextBatch> next();

 private:
  std::optional<TextBatch> read_next();
  void open();
  void close();
  /// Reads on until `wanted` bytes are there, or the text ends.
  void fill(Index wanted);
  void fill_with_lines();
  void fill_with_text();
  bool is_json() const;

  std::vector<std::string> inputs_;
  TextFormat format_;
  bool may_cut_;
  const Interruption& interruption_;
  Limits limits_;
  std::size_t opened_ = 0;  // files
  std::unique_ptr<InputFile> file_;
  std::unique_ptr<TextStream> stream_;
  bool json_ = false, ended_ = false;
  std::string text_;       // read, and not yet in a batch
  std::size_t whole_ = 0;  // bytes of it that are whole lines
  Index line_ = 1;
  Index position_before_ = 0;  // bytes of the files before this one
};

/// Returns the limits for documents that take `times` their bytes of memory, of which `free` bytes
/// are free.
TextReader::Limits limits_of_memory(Index free, Index times);

}  // namespace trireme::data
