// Encodes documents by a tokenizer.json on one core, for tests/benchmarks/tokenizer.py and
// tests/data/tokenizer/parity.
// usage: tokenizer TOKENIZER_JSON DOCUMENTS TOKENS [PASSES]
//   DOCUMENTS  texts, each with a zero byte behind it
//   TOKENS     is written: their tokens, int32, each text's with a -1 behind them
// Prints the CPU seconds of each pass over the documents, in memory, without reading and writing.
// The first pass knows no word; later ones know what the passes before have met.
#include "trireme/data/tokenizer.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/error.h"

namespace trireme {
namespace {

std::string read_all(const char* path) {
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), path, ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::int32_t> encode_all(const data::Tokenizer& tokenizer,
                                     data::Tokenizer::Scratch& scratch,
                                     std::string_view documents) {
  std::vector<std::int32_t> tokens;
  while (!documents.empty()) {
    const std::size_t end = documents.find('\0');
    require(end != documents.npos, "the last document has no zero byte behind it");
    tokenizer.encode(documents.substr(0, end), scratch, tokens);
    tokens.push_back(-1);
    documents.remove_prefix(end + 1);
  }
  return tokens;
}

void run(const char* json, const char* documents, const char* out, int passes) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(json);
  const std::string text = read_all(documents);
  data::Tokenizer::Scratch scratch;
  std::vector<std::int32_t> tokens;
  for (int pass = 0; pass < passes; ++pass) {
    const std::clock_t start = std::clock();
    tokens = encode_all(tokenizer, scratch, text);
    std::printf("%.6f\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::ofstream file(out, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof(std::int32_t)));
  require(file.flush().good(), out, ": cannot be written");
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON DOCUMENTS TOKENS [PASSES]\n", argv[0]);
    return 64;
  }
  try {
    trireme::run(argv[1], argv[2], argv[3], argc > 4 ? std::atoi(argv[4]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
