#include "tests/observe/simulated_job.h"

#include <algorithm>

namespace trireme::observe {

std::vector<RankReport> SimulatedJob::run(int stops, std::size_t stops_at, int lost_group,
                                          std::uint64_t lost_sequence) {
  position_.assign(at(mesh_.size()), 0);
  inside_.assign(at(mesh_.size()), false);
  begun_.assign(groups_.size(), {});
  done_.assign(groups_.size(), {});
  const auto ends = [&](const Instruction& instruction) {
    if (instruction.group == lost_group && instruction.sequence == lost_sequence)
      return instruction.kind == Instruction::Kind::send;  // it is buffered
    if (instruction.kind == Instruction::Kind::send) return true;
    if (stops >= 0 && begun_frozen_ && instruction.group == frozen_.group &&
        instruction.sequence == frozen_.sequence)
      return false;  // the share of the frozen member is missing
    for (const int member : groups_[at(instruction.group)].members)
      if (begun_[at(instruction.group)][member] < instruction.sequence) return false;
    return true;
  };
  begun_frozen_ = false;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      std::size_t& position = position_[at(rank)];
      while (position < program(rank).size()) {
        const Instruction& instruction = program(rank)[position];
        const bool operation = instruction.kind != Instruction::Kind::compute;
        if (operation && !inside_[at(rank)]) {
          inside_[at(rank)] = moved = true;
          begun_[at(instruction.group)][rank] = instruction.sequence;
        }
        if (rank == stops && position == stops_at) {
          if (operation && !begun_frozen_) {
            begun_frozen_ = moved = true;
            frozen_ = instruction;
          }
          break;
        }
        if (operation && !ends(instruction)) break;
        if (operation) done_[at(instruction.group)][rank] = instruction.sequence;
        inside_[at(rank)] = false;
        ++position;
        moved = true;
      }
    }
  }
  return reports(stops);
}

std::vector<RankReport> SimulatedJob::reports(int stopped) const {
  constexpr std::int64_t second = 1'000'000'000, now = 100 * second;
  std::vector<RankReport> all;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    PageState page;
    page.rank = rank;
    page.ranks = mesh_.size();
    page.read_ns = now;
    page.phase = Phase::step;
    page.moved_ns = now - 12 * second;
    page.heartbeat_ns = now - (rank == stopped ? 13 * second : second / 1000);
    std::map<int, int> table;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      if (std::find(group.members.begin(), group.members.end(), rank) == group.members.end())
        continue;
      table[static_cast<int>(i)] = static_cast<int>(page.groups.size());
      const auto count = [&](const auto& counts) {
        const auto found = counts[i].find(rank);
        return found == counts[i].end() ? 0 : found->second;
      };
      page.groups.push_back(
          {group.name, group.channel, runs_of(group.members), count(begun_), count(done_)});
    }
    if (position_[at(rank)] == program(rank).size()) {
      page.phase = Phase::finished;
    } else if (inside_[at(rank)]) {
      const Instruction& instruction = program(rank)[position_[at(rank)]];
      page.waits_for = WaitsFor::operations;
      page.waits_since_ns = now - 12 * second;
      page.awaited = {{table.at(instruction.group), instruction.sequence}};
    }
    RankReport report;
    report.rank = rank;
    report.host = "n" + std::to_string(rank / 4);
    report.page = page;
    all.push_back(report);
  }
  return all;
}

}  // namespace trireme::observe
