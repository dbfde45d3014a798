#include "runtime/graph/lifetimes.h"

#include <algorithm>

namespace trireme {

namespace {

std::size_t at(int id) { return static_cast<std::size_t>(id); }

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
  for (const int s : sources.members)
    for (const int t : targets.members) {
      const bool excused =
          t == share.target && (share.kind == Share::Kind::passes || s == share.source);
      if (clash(program.memory[at(s)], program.memory[at(t)], excused ? share.step : -1))
        return false;
    }
  return true;
}

void join(Program& program, std::vector<Stretch>& buffers, const Share& share) {
  const int from = program.memory[at(share.source)].buffer,
            to = program.memory[at(share.target)].buffer;
  if (from < 0 || to < 0 || from == to) return;  // transfer buffers never share (rule 8)
  Stretch& sources = buffers[at(from)];
  Stretch& targets = buffers[at(to)];
  if (!legal(program, share, sources, targets)) return;
  for (const int member : targets.members) {
    program.memory[at(member)].buffer = from;
    sources.members.push_back(member);
  }
  sources.bytes = std::max(sources.bytes, targets.bytes);
  sources.begin = std::min(sources.begin, targets.begin);
  sources.end = std::max(sources.end, targets.end);
  targets.members.clear();
}

void note_deaths(Program& program, const std::vector<Stretch>& buffers) {
  for (std::size_t b = 0; b < buffers.size(); ++b)
    for (const int m : buffers[b].members) {
      const Memory& memory = program.memory[at(m)];
      const bool lives_on =
          memory.life != Memory::Life::steps ||
          std::any_of(buffers[b].members.begin(), buffers[b].members.end(), [&](int other) {
            const Memory& o = program.memory[at(other)];
            return o.begin <= memory.end && (o.end > memory.end || o.life != Memory::Life::steps);
          });
      std::vector<int>& deaths = program.steps[at(memory.end)].deaths;
      if (!lives_on && std::find(deaths.begin(), deaths.end(), static_cast<int>(b)) == deaths.end())
        deaths.push_back(static_cast<int>(b));
    }
}

}  // namespace

std::vector<Stretch> make_buffers(Program& program, bool share) {
  std::vector<Stretch> buffers;
  for (std::size_t m = 0; m < program.memory.size(); ++m) {
    Memory& memory = program.memory[m];
    if (memory.region >= 0) continue;  // lies in its region's buffer
    memory.buffer = static_cast<int>(buffers.size());
    buffers.push_back({.members = {static_cast<int>(m)},
                       .bytes = memory.bytes,
                       .begin = memory.begin,
                       .end = memory.end});
  }
  if (share)  // what passes first: it saves a copy as well
    for (const Share::Kind kind : {Share::Kind::passes, Share::Kind::over})
      for (const Share& s : program.shares)
        if (s.kind == kind) join(program, buffers, s);

  std::vector<Stretch> used;
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

}  // namespace trireme
