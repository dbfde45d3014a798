// Encodes documents by a tokenizer.json on one core, for tests/benchmarks/tokenizer.py and
// tests/data/tokenizer/parity.
// usage: tokenizer TOKENIZER_JSON DOCUMENTS TOKENS [PASSES [TEXTS]]
//   DOCUMENTS  texts, each with a zero byte behind it
//   TOKENS     is written: their tokens, int32, each text's with a -1 behind them
//   TEXTS      is written: what these tokens stand for, each with a zero byte behind it
// Prints the CPU seconds of each pass over the documents, in memory, without reading and writing.
// The first pass knows no word; later ones know what the passes before have met.
#include "trireme/data/tokenizer.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
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

void write(const char* path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  require(file.flush().good(), path, ": cannot be written");
}

std::string decode_all(const data::Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  std::string texts;
  for (std::size_t begin = 0, end = 0; end < tokens.size(); ++end)
    if (tokens[end] == -1) {
      texts += tokenizer.decode(tokens.subspan(begin, end - begin)) + '\0';
      begin = end + 1;
    }
  return texts;
}

void run(const char* json, const char* documents, const char* out, int passes, const char* texts) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(json);
  const std::string text = read_all(documents);
  data::Tokenizer::Scratch scratch;
  std::vector<std::int32_t> tokens;
  for (int pass = 0; pass < passes; ++pass) {
    const std::clock_t start = std::clock();
    tokens = encode_all(tokenizer, scratch, text);
    std::printf("%.6f\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  write(out, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]});
  if (texts != nullptr) write(texts, decode_all(tokenizer, tokens));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 4 || argc > 6) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON DOCUMENTS TOKENS [PASSES [TEXTS]]\n", argv[0]);
    return 64;
  }
  try {
    trireme::run(argv[1], argv[2], argv[3], argc > 4 ? std::atoi(argv[4]) : 1,
                 argc > 5 ? argv[5] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
