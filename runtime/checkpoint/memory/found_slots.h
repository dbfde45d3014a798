// FoundSlots: what a rank has found in its two slots of a directory.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/checkpoint/memory/piece_places.h"
#include "runtime/store/tiers/slots.h"

namespace trireme::checkpoint {

struct FoundSlots {
  std::array<std::optional<store::SlotHeader>, store::Slots::count> headers;

  std::optional<store::SlotHeader>& operator[](int slot) {
    return headers[static_cast<std::size_t>(slot)];
  }
  const std::optional<store::SlotHeader>& operator[](int slot) const {
    return headers[static_cast<std::size_t>(slot)];
  }
  /// Reads the headers; keeps those that `counts`.
  template <class F>
  void look(const store::Slots& slots, F&& counts) {
    for (int slot = 0; slot < store::Slots::count; ++slot) {
      (*this)[slot] = slots.header(slot);
      if ((*this)[slot] && !counts(*(*this)[slot])) (*this)[slot].reset();
    }
  }
  /// -1: none has it.
  int find(const SnapshotStep& step) const {
    const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& header) {
      return header && SnapshotStep{header->step, header->job} == step;
    });
    return found == headers.end() ? -1 : static_cast<int>(found - headers.begin());
  }
  /// The slot that is empty, or has the older step.
  int oldest() const {
    const auto step_of = [](const auto& header) { return header ? header->step : -1; };
    return step_of(headers[0]) <= step_of(headers[1]) ? 0 : 1;
  }
};

}  // namespace trireme::checkpoint
