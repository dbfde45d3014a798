// libFuzzer target: bytes that anybody may have written, as a safetensors file, and as the index of
// two. They may be refused with Error, in lines that stay lines, and nothing else; the tensors of a
// file that is taken can be read, and fill it.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"
#include "runtime/store/safetensors/element.h"
#include "runtime/store/safetensors/reader.h"
#include "tests/support/scratch_directory.h"

namespace trireme::safetensors {
namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

/// Returns: whether it is taken.
template <class Read>
bool is_taken(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) expect(one_line(line, 8192) == line);
    return false;
  }
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
  if (!is_taken([&] {
        file = read_header(folder / single_file_name);
        directory = open_directory(folder.path());
      }))
    return;
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

/// Of the files a, with a tensor of its name, and b with another.
void try_index(const std::string& text) {
  static const ScratchDirectory folder{ScratchDirectory::in_memory()};
  for (const char* name : {"a", "b"})
    folder.write(name, file_of(str("{\"", name, R"(":{"dtype":"F32","shape":[2],)",
                                   R"("data_offsets":[0,8]}})"),
                               8));
  folder.write(index_name, text);
  Directory directory;
  if (!is_taken([&] { directory = open_directory(folder.path()); })) return;
  for (const LocatedTensor& tensor : directory.tensors)
    expect(directory.files[static_cast<std::size_t>(tensor.file)] == tensor.name);
  read_all(directory);
}

}  // namespace
}  // namespace trireme::safetensors

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace trireme::safetensors;
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  try_file(text);
  try_index(text);
  if (bytes > 0) try_file(file_of(text.substr(1), data[0]));
  return 0;
}
