// FoundSlots: what a rank has found in its two slots of a directory.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/checkpoint/tiers/piece_places.h"
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
  /// Reads the headers, and keeps those that are `mine`. Returns them as lines for all ranks.
  std::vector<std::string> look(const store::Slots& slots,
                                const std::function<bool(const store::SlotHeader&)>& is_mine,
                                PieceAt place) {
    std::vector<std::string> lines;
    for (int slot = 0; slot < store::Slots::count; ++slot) {
      auto& header = (*this)[slot] = slots.header(slot);
      if (header && !is_mine(*header)) header.reset();
      if (header)
        lines.push_back(str("own ", static_cast<int>(place), ' ', header->step, ' ', header->job));
    }
    return lines;
  }
  /// Adds what ranks have found so at that place.
  static void note(const std::vector<std::vector<std::string>>& found, PieceAt at,
                   PiecePlaces& places) {
    for (std::size_t rank = 0; rank < found.size(); ++rank)
      for (const std::string& line : found[rank]) {
        std::istringstream in(line);
        std::string what;
        int place = 0;
        SnapshotStep step;
        if (in >> what && what == "own" && in >> place >> step.step >> step.job &&
            place == static_cast<int>(at))
          places.add(step, static_cast<int>(rank), at);
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
