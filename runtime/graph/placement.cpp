#include "runtime/graph/placement.h"

#include <algorithm>
#include <limits>

namespace trireme {

namespace {

// What lies in one arena so far, by offset.
class ArenaMap {
 public:
  explicit ArenaMap(bool pack) : pack_(pack) {}

  Index bytes() const { return bytes_; }

  /// Places `buffer` at the lowest free offset, if it ends at or below `limit`.
  bool place(Stretch& buffer, Index limit) {
    const Index bytes = align_up(buffer.bytes);
    Index offset = 0;
    for (const Stretch* other : placed_) {
      const bool meet = !pack_ || (buffer.begin <= other->end && other->begin <= buffer.end);
      if (!meet) continue;
      if (offset + bytes <= other->offset) break;
      offset = std::max(offset, other->offset + align_up(other->bytes));
    }
    if (offset + bytes > limit) return false;
    buffer.offset = offset;
    bytes_ = std::max(bytes_, offset + bytes);
    const auto by_offset = [](Index o, const Stretch* b) { return o < b->offset; };
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), offset, by_offset), &buffer);
    return true;
  }

 private:
  bool pack_;
  Index bytes_ = 0;
  std::vector<const Stretch*> placed_;
};

}  // namespace

ArenaBytes place_buffers(std::vector<Stretch>& buffers, bool pack) {
  std::vector<Stretch*> order;  // large ones first: small ones fill the holes
  for (Stretch& buffer : buffers) order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(), [](const Stretch* a, const Stretch* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->begin < b->begin;
  });
  constexpr Index unlimited = std::numeric_limits<Index>::max();
  ArenaMap slot(pack), scratch(pack);
  for (Stretch* buffer : order)
    if (buffer->arena == Instance::Arena::slot) slot.place(*buffer, unlimited);
  const Index slot_bytes = slot.bytes();
  for (Stretch* buffer : order) {
    if (buffer->arena == Instance::Arena::slot) continue;
    if (pack && slot.place(*buffer, slot_bytes))
      buffer->arena = Instance::Arena::slot;
    else
      scratch.place(*buffer, unlimited);
  }
  return {slot_bytes, scratch.bytes()};
}

}  // namespace trireme
