#include "runtime/graph/compile/lifetimes.h"

#include <algorithm>
#include <limits>

#include "runtime/core/at.h"

namespace trireme::graph {

namespace {

bool alive(const Memory& m, int step) { return m.begin <= step && step <= m.end; }

// Is one of the two written while the other is alive? `excused`: a write of `b` that does not
// count.
bool clash(const Memory& a, const Memory& b, int excused) {
  for (const int step : a.writes)
    if (alive(b, step)) return true;
  for (const int step : b.writes)
    if (step != excused && alive(a, step)) return true;
  return false;
}

// The one test of legality: at each write every other member of the buffer is dead, except the
// declared source, which ends there. A gradient that passes is not written at all, so its source
// and what equals it may live on.
bool legal(const Program& program, const Share& share, const Stretch& sources,
           const Stretch& targets) {
  const Memory& target = program.memory[at(share.target)];
  const Memory& source = program.memory[at(share.source)];
  if (target.bytes != source.bytes || target.begin != share.step) return false;
  if (share.kind == Share::Kind::over && source.end != share.step) return false;
  for (std::size_t i = sources.members.size(); i > 0 && sources.reach[i - 1] >= targets.begin; --i)
    for (const int t : targets.members) {
      const int s = sources.members[i - 1];
      const bool excused =
          t == share.target && (share.kind == Share::Kind::passes || s == share.source);
      if (clash(program.memory[at(s)], program.memory[at(t)], excused ? share.step : -1))
        return false;
    }
  return true;
}

// When a member ends; what stays ends after all steps.
int reach_of(const Memory& m) {
  return m.life == Memory::Life::steps ? m.end : std::numeric_limits<int>::max();
}

// Moves the members of `from` to `to`. Mostly they begin after all that are there.
void move_members(const Program& program, Stretch& from, Stretch& to) {
  const auto by_begin = [&](int a, int b) {
    return program.memory[at(a)].begin < program.memory[at(b)].begin;
  };
  const auto here = static_cast<std::ptrdiff_t>(to.members.size());
  to.members.insert(to.members.end(), from.members.begin(), from.members.end());
  from.members.clear();
  const auto middle = to.members.begin() + here;
  const auto first = std::upper_bound(to.members.begin(), middle, *middle, by_begin);
  const auto changed = static_cast<std::size_t>(first - to.members.begin());
  std::inplace_merge(first, middle, to.members.end(), by_begin);
  to.reach.resize(changed);
  for (std::size_t i = changed; i < to.members.size(); ++i) {
    const int reach = reach_of(program.memory[at(to.members[i])]);
    to.reach.push_back(i == 0 ? reach : std::max(to.reach.back(), reach));
  }
}

void join(Program& program, std::vector<Stretch>& buffers, const Share& share) {
  const int from = program.memory[at(share.source)].buffer,
            to = program.memory[at(share.target)].buffer;
  if (from < 0 || to < 0 || from == to) return;  // transfer buffers never share (rule 8)
  Stretch& sources = buffers[at(from)];
  Stretch& targets = buffers[at(to)];
  if (!legal(program, share, sources, targets)) return;
  for (const int member : targets.members) program.memory[at(member)].buffer = from;
  move_members(program, targets, sources);
  sources.bytes = std::max(sources.bytes, targets.bytes);
  sources.begin = std::min(sources.begin, targets.begin);
  sources.end = std::max(sources.end, targets.end);
}

void note_deaths(Program& program, const std::vector<Stretch>& buffers) {
  for (std::size_t b = 0; b < buffers.size(); ++b)
    for (const int m : buffers[b].members) {
      const std::vector<int>& members = buffers[b].members;
      const int end = program.memory[at(m)].end;
      const auto later = std::partition_point(members.begin(), members.end(), [&](int other) {
        return program.memory[at(other)].begin <= end;
      });
      const auto begun = static_cast<std::size_t>(later - members.begin());  // with m itself
      const bool lives_on = buffers[b].reach[begun - 1] > end;
      std::vector<int>& deaths = program.steps[at(end)].deaths;
      if (!lives_on && std::find(deaths.begin(), deaths.end(), static_cast<int>(b)) == deaths.end())
        deaths.push_back(static_cast<int>(b));
    }
}

}  // namespace

std::vector<Stretch> make_buffers(Program& program, bool share) {
  std::vector<Stretch> buffers;
  buffers.reserve(program.memory.size());
  for (std::size_t m = 0; m < program.memory.size(); ++m) {
    Memory& memory = program.memory[m];
    if (memory.region >= 0) continue;  // lies in its region's buffer
    memory.buffer = static_cast<int>(buffers.size());
    buffers.push_back({.members = {static_cast<int>(m)},
                       .reach = {reach_of(memory)},
                       .bytes = memory.bytes,
                       .begin = memory.begin,
                       .end = memory.end});
  }
  if (share)  // what passes first: it saves a copy as well
    for (const Share::Kind kind : {Share::Kind::passes, Share::Kind::over})
      for (const Share& s : program.shares)
        if (s.kind == kind) join(program, buffers, s);

  std::vector<Stretch> used;
  used.reserve(buffers.size());
  for (Stretch& buffer : buffers) {
    if (buffer.members.empty()) continue;
    bool in_slot = program.steps.empty() ||
                   program.steps[at(buffer.begin)].phase != program.steps[at(buffer.end)].phase;
    for (const int m : buffer.members) {
      program.memory[at(m)].buffer = static_cast<int>(used.size());
      in_slot |= program.memory[at(m)].life != Memory::Life::steps;
    }
    buffer.arena = in_slot ? Instance::Arena::slot : Instance::Arena::scratch;
    used.push_back(std::move(buffer));
  }
  for (Memory& memory : program.memory)
    if (memory.region >= 0) memory.buffer = program.memory[at(memory.region)].buffer;
  note_deaths(program, used);
  return used;
}

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
