// libFuzzer target: bytes that anybody may have written, as the config.json of a model. What is
// wrong is a problem on one line; a model that is understood is understood again of the file that
// is written for it.
#include <cstdint>
#include <cstdlib>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"
#include "runtime/interop/hf_config.h"

namespace trireme::interop {
namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

void try_config(std::string_view text) {
  std::vector<std::string> problems;
  const HfConfig config = parse_hf_config(text, problems);
  for (const std::vector<std::string>& lines : {problems, config.notes, config.not_used})
    for (const std::string& line : lines) expect(one_line(line, 4096) == line);
  if (!problems.empty()) return;
  expect(longest_sequence(config) >= 1);
  Json again;
  try {
    again = hf_config_of(config.model, {.model_type = config.model_type, .base = &config.json});
  } catch (const Error&) {  // numbers that no text gives back
    return;
  }
  const HfConfig same = parse_hf_config(to_text(again), problems);
  expect(problems.empty() && same.model.identity() == config.model.identity());
}

}  // namespace
}  // namespace trireme::interop

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  trireme::interop::try_config({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
