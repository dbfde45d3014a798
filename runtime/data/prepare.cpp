#include "trireme/data/prepare.h"

#include <cstring>

#include "trireme/core/error.h"

#include "runtime/data/data_file.h"

namespace trireme {

using namespace data;

namespace {
constexpr Index piece_tokens = 1 << 20;  // at a time
}

Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix,
                       FunctionRef<void(Index done, Index total)> progress) {
  require(!inputs.empty(), "no input files");
  Index total = 0, done = 0;
  for (const std::string& input : inputs) {  // check all before writing anything
    const DataFile file(input);
    require(file.bytes() > 0, input, ": is empty; leave it out");
    total += file.bytes();
  }
  TokenFileWriter writer(prefix, token_type_for(256));
  std::vector<std::int64_t> piece;
  for (const std::string& input : inputs) {
    const DataFile file(input);
    for (Index at = 0; at < file.bytes(); at += piece_tokens) {
      const Index count = std::min(piece_tokens, file.bytes() - at);
      piece.resize(static_cast<std::size_t>(count));
      file.for_each<std::uint8_t>(at, count, [&](Index i, std::uint8_t byte) {
        piece[static_cast<std::size_t>(i)] = byte;
      });
      writer.add(piece);
      done += count;
      progress(done, total);
    }
    writer.end_document();
  }
  writer.finish();
  return {static_cast<Index>(inputs.size()), done};
}

Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix) {
  return prepare_bytes(inputs, prefix, [](Index, Index) {});
}

}  // namespace trireme
