// libFuzzer target: bytes that anybody may have written, as a manifest. They may be refused with
// Error, and nothing else; what is taken must come back from its own text, and be fit for the
// reader of boxes, whatever it says of files.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "trireme/core/error.h"

#include "runtime/store/read/reader.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

/// `line` as the first line of a manifest whose checksum holds.
std::string with_checksum(std::string line) {
  for (char& c : line)
    if (c == '\n') c = ' ';
  line += '\n';
  return line + R"({"xxh3_128":")" +
         to_text(checksum(line.data(), static_cast<Index>(line.size()))) + "\"}\n";
}

/// The files that the manifest speaks of, of zeros; false when they are too much.
bool write_files(const std::string& directory, Manifest& manifest) {
  constexpr Index most_bytes = 1 << 16, most_files = 4;
  if (static_cast<Index>(manifest.files.size()) > most_files) return false;
  const std::string zeros(static_cast<std::size_t>(most_bytes), '\0');
  for (Manifest::File& file : manifest.files) {
    if (file.bytes > most_bytes) return false;
    for (Checksum& block : file.blocks) block = checksum(zeros.data(), file.bytes);
    std::ofstream(directory + "/" + file.name, std::ios::binary).write(zeros.data(), file.bytes);
  }
  return true;
}

void read_all(const std::string& directory, const Manifest& manifest) {
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    Box whole{tensor.global, tensor.global};
    for (int d = 0; d < tensor.global.dims(); ++d) whole.begin[d] = 0;
    const Index bytes = tensor.global.count() * size_bytes(tensor.dtype);
    std::vector<char> data(static_cast<std::size_t>(bytes), 'x');
    read_boxes(directory, manifest,
               {{tensor.name, tensor.dtype, tensor.global, whole, data.data()}}, 1);
    for (const char byte : data) expect(byte == 0);
  }
}

void try_manifest(const std::string& text) {
  static const ScratchDirectory folder;
  static const std::string directory = folder / "step";
  Manifest manifest;
  try {
    manifest = parse_manifest(text);
  } catch (const Error&) {
    return;
  }
  const std::string again = to_text(manifest);
  expect(to_text(parse_manifest(again)) == again);
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  try {
    if (write_files(directory, manifest)) read_all(directory, manifest);
    verify_step(directory, manifest, 1);
  } catch (const Error&) {  // names that a file system does not take
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  trireme::try_manifest(text);
  trireme::try_manifest(trireme::with_checksum(text));
  return 0;
}
