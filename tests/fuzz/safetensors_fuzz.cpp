// libFuzzer target: bytes that anybody may have written, as a safetensors file. They may be refused
// with Error, and nothing else; the tensors of a file that is taken can be read, and fill it.
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "trireme/core/error.h"

#include "runtime/store/safetensors/element.h"
#include "runtime/store/safetensors/reader.h"
#include "tests/support/scratch_directory.h"

namespace trireme::safetensors {
namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

void read_all(const Directory& directory) {
  for (const LocatedTensor& tensor : directory.tensors) {
    if (!parse_element(tensor.type)) continue;
    const Rows rows = rows_of(tensor.shape);
    std::vector<float> data(static_cast<std::size_t>(rows.rows * rows.columns));
    try {
      read_rectangles(directory,
                      {{&tensor, 0, rows.rows, 0, rows.columns, data.data(), rows.columns, 1}}, 1);
    } catch (const Error&) {  // rows that are too long
    }
  }
}

void try_file(const std::string& bytes) {
  static const ScratchDirectory folder{ScratchDirectory::in_memory()};
  folder.write(single_file_name, bytes);
  Directory directory;
  FileHeader file;
  try {
    file = read_header(folder / single_file_name);
    directory = open_directory(folder.path());
  } catch (const Error&) {
    return;
  }
  expect(file.data_begin + directory.bytes() == static_cast<Index>(bytes.size()));
  const std::string again = header_text(file.header);
  parse_header(std::string_view(again).substr(length_bytes), directory.bytes());
  read_all(directory);
}

/// `json` behind its length, and `data` zeros.
std::string file_of(const std::string& json, std::size_t data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((json.size() >> (8 * i)) & 255u);
  return bytes + json + std::string(data, '\0');
}

}  // namespace
}  // namespace trireme::safetensors

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace trireme::safetensors;
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  try_file(text);
  if (bytes > 0) try_file(file_of(text.substr(1), data[0]));
  return 0;
}
