// libFuzzer target: bytes that anybody may have written, as a compressed text. It may be refused
// with Error, and nothing else; its text is the same in pieces of any length.
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/data/prepare/input_file.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

/// Of a few bytes streams make gigabytes: the rest is not read.
constexpr std::size_t most_text = 1 << 18;

/// None where it is refused.
std::optional<std::string> text_of(const std::string& path, Index piece) {
  try {
    const Interruption none(-1);
    InputFile file(path, none);
    const std::unique_ptr<TextStream> stream = open_text(file);
    std::string text, next(static_cast<std::size_t>(piece), '\0');
    while (text.size() < most_text) {
      const Index bytes = stream->read(next.data(), piece);
      if (bytes == 0) return text;
      text.append(next, 0, static_cast<std::size_t>(bytes));
    }
    return text.substr(0, most_text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace trireme::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace trireme::data;
  static const trireme::ScratchDirectory folder{trireme::ScratchDirectory::in_memory()};
  const std::string path =
      folder.write("text", std::string(reinterpret_cast<const char*>(data), bytes));
  const std::optional<std::string> large = text_of(path, 1 << 16), small = text_of(path, 7);
  // Where one has ended at `most_text`, damage behind it may refuse the other.
  if (large != small && large && small) std::abort();
  if (large.has_value() != small.has_value() && (large ? large : small)->size() < most_text)
    std::abort();
  return 0;
}
