// libFuzzer target: bytes that anybody may have written, as a tokenizer.json, and as the members
// beside the model of one whose vocabulary is whole. They may be refused with Error, and nothing
// else; a tokenizer that is taken has tokens for every text, the same ones again, and decodes them.
#include <cstdint>
#include <cstdlib>

#include "trireme/core/error.h"
#include "trireme/data/tokenizer.h"

#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "runtime/data/unicode/utf8.h"
#include "tests/data/tokenizer/small_tokenizer.h"

namespace trireme::data {
namespace {

constexpr const char* texts[] = {"The file is here, isn't it? 2026\n\n  x",
                                 "\xE4\xBD\xA0\xE5\xA5\xBD e\xCC\x81 \xF0\x9F\x99\x82<s></s>",
                                 "aaab ab  \t\xC2\xA0", " ", ""};

void expect(bool holds) {
  if (!holds) std::abort();
}

/// Whether replacing again and again makes a text too long for this target.
bool grows(const TokenizerDefinition& definition) {
  double factor = 1;
  for (const NormalizerStep& step : definition.normalizer)
    factor *= static_cast<double>(step.content.size() + 1);
  return factor > 1e5;
}

void encode(const Tokenizer& tokenizer, Tokenizer::Scratch& scratch, std::string_view text) {
  std::vector<std::int32_t> tokens, again;
  try {
    tokenizer.encode(text, scratch, tokens);
    tokenizer.encode(text, scratch, again);
  } catch (const Error&) {  // not UTF-8, or a pattern that needs too many steps
    return;
  }
  expect(tokens == again);
  for (const std::int32_t token : tokens) expect(0 <= token && token < tokenizer.vocabulary());
  tokenizer.decode(tokens);
}

void try_file(const std::string& json, std::string_view own_text) {
  static const ScratchDirectory folder{ScratchDirectory::in_memory()};
  const std::string path = folder.write("tokenizer.json", json);
  try {
    if (grows(read_tokenizer(path))) return;
    const Tokenizer tokenizer = Tokenizer::load(path);
    expect(tokenizer.hash().size() == 16);
    Tokenizer::Scratch scratch;
    for (const char* text : texts) encode(tokenizer, scratch, text);
    encode(tokenizer, scratch, own_text);
  } catch (const Error&) {
    return;
  }
}

/// The member "model" of a tokenizer of bytes, and of one of characters.
std::string byte_model() {
  const std::string json = SmallTokenizer().merge("a", "a").merge("aa", "b").json();
  return json.substr(json.find("\"model\""));  // and the end of the object
}
std::string character_model() {
  std::string vocabulary = R"("<unk>":256,"<s>":257,"</s>":258,"a":259,"b":260,"ab":261)";
  for (int byte = 0; byte < 256; ++byte)
    vocabulary += str(",\"", name_of_byte(static_cast<unsigned char>(byte)), "\":", byte);
  return R"("model":{"type":"BPE","byte_fallback":true,"merges":["a b"],"vocab":{)" + vocabulary +
         "}}}";
}

}  // namespace
}  // namespace trireme::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace trireme::data;
  static const std::string of_bytes = byte_model(), of_characters = character_model();
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  try_file(text, text);
  try_file("{" + text + "," + of_bytes, text);
  try_file("{" + text + "," + of_characters, text);
  return 0;
}
