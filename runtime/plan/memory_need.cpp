#include "runtime/plan/memory_need.h"

#include <fmt/format.h>

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"

namespace trireme {

Index MemoryNeed::aligned(Index bytes) {
  constexpr Index alignment = 4096;
  return round_up(bytes, alignment);
}

Index MemoryNeed::arena() const {
  return aligned(parameters) + aligned(gradients) + aligned(optimizer) + aligned(activations) +
         aligned(constants) + aligned(checks);
}

std::string MemoryNeed::describe() const {
  std::string text = fmt::format(
      "parameters {}, gradients {}, optimizer {}, activations {}, data {}", show_bytes(parameters),
      show_bytes(gradients), show_bytes(optimizer), show_bytes(activations), show_bytes(inputs));
  if (outputs > 0) text += ", outputs " + show_bytes(outputs);
  if (products > 0) text += ", products " + show_bytes(products);
  if (constants > 0) text += ", constants " + show_bytes(constants);
  if (checks > 0) text += ", checks " + show_bytes(checks);
  if (checkpoint > 0) text += ", checkpoint " + show_bytes(checkpoint);
  if (snapshots > 0) text += ", snapshots " + show_bytes(snapshots);
  if (loading > 0) text += ", loading " + show_bytes(loading);
  return text + ", libraries about " + show_bytes(libraries);
}

}  // namespace trireme
