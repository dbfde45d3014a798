#include "runtime/graph/plan/offsets.h"

#include <algorithm>
#include <limits>

namespace trireme::graph {

namespace {

bool meet(const Stretch& a, const Stretch& b) { return a.begin <= b.end && b.begin <= a.end; }
Index end_of(const Stretch& s) { return s.offset + align_up(s.bytes); }

// Neighbours in one arena, by offset, with what decides about all of them at once.
struct Group {
  std::vector<const Stretch*> members;
  int least_begin, most_begin, least_end, most_end;
  Index end, hole;  // behind the last one; the largest hole between two

  void summarise() {
    const Stretch& first = *members.front();
    least_begin = most_begin = first.begin;
    least_end = most_end = first.end;
    end = end_of(first), hole = 0;
    for (const Stretch* s : members) {
      least_begin = std::min(least_begin, s->begin), most_begin = std::max(most_begin, s->begin);
      least_end = std::min(least_end, s->end), most_end = std::max(most_end, s->end);
      hole = std::max(hole, s->offset - end);
      end = std::max(end, end_of(*s));
    }
  }
  bool none_meets(const Stretch& s) const { return s.end < least_begin || most_end < s.begin; }
  bool all_meet(const Stretch& s) const { return s.begin <= least_end && most_begin <= s.end; }
};

// What lies in one arena so far, by offset. A model of many layers has many buffers that all live
// at the same time, or at different times one after the other: groups of them are passed in one
// step.
class ArenaMap {
 public:
  explicit ArenaMap(bool pack) : pack_(pack) {}

  Index bytes() const { return bytes_; }

  /// Places `buffer` at the lowest free offset, if it ends at or below `limit`.
  bool place(Stretch& buffer, Index limit) {
    const Index bytes = align_up(buffer.bytes);
    const Index offset = lowest_free(buffer, bytes);
    if (offset + bytes > limit) return false;
    buffer.offset = offset;
    bytes_ = std::max(bytes_, offset + bytes);
    insert(buffer);
    return true;
  }

 private:
  static constexpr std::size_t most_members = 256;

  Index lowest_free(const Stretch& buffer, Index bytes) const {
    Index offset = 0;
    for (const Group& group : groups_) {
      if (pack_ && group.none_meets(buffer)) continue;
      const bool all = !pack_ || group.all_meet(buffer);
      if (all && offset + bytes <= group.members.front()->offset) return offset;
      if (all && bytes > group.hole) {
        offset = std::max(offset, group.end);
        continue;
      }
      for (const Stretch* other : group.members) {
        if (pack_ && !meet(buffer, *other)) continue;
        if (offset + bytes <= other->offset) return offset;
        offset = std::max(offset, end_of(*other));
      }
    }
    return offset;
  }

  void insert(const Stretch& buffer) {
    if (groups_.empty()) groups_.emplace_back();
    auto group = std::upper_bound(groups_.begin() + 1, groups_.end(), buffer.offset,
                                  [](Index offset, const Group& g) {
                                    return offset < g.members.front()->offset;
                                  }) -
                 1;
    std::vector<const Stretch*>& members = group->members;
    members.insert(
        std::upper_bound(members.begin(), members.end(), buffer.offset,
                         [](Index offset, const Stretch* s) { return offset < s->offset; }),
        &buffer);
    if (members.size() > most_members) {
      const auto middle = members.begin() + most_members / 2;
      Group upper{};
      upper.members.assign(middle, members.end());
      upper.summarise();
      members.erase(middle, members.end());
      group = groups_.insert(group + 1, std::move(upper)) - 1;
    }
    group->summarise();
  }

  bool pack_;
  Index bytes_ = 0;
  std::vector<Group> groups_;  // none empty; their members ascend from group to group
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

}  // namespace trireme::graph
