// A job of training simulated without time: every rank runs its program of computations,
// collectives and messages until one rank or one operation stops, and then until nothing moves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/status_page.h"

namespace trireme::observe {

struct SimulatedMesh {
  int pipeline, data, tensor;
  int size() const { return pipeline * data * tensor; }
  int rank(int p, int d, int t) const { return (p * data + d) * tensor + t; }
};

class SimulatedJob {
 public:
  struct Instruction {
    enum class Kind { compute, collective, send, receive };
    Kind kind;
    int group;               // of collectives and messages
    std::uint64_t sequence;  // of this operation in its group
  };
  struct Group {
    std::string name;
    bool channel;
    std::vector<int> members;
  };

  explicit SimulatedJob(const SimulatedMesh& mesh)
      : mesh_(mesh), programs_(at(mesh.size())), counters_(at(mesh.size())) {
    constexpr int steps = 3, micro_batches = 4;
    for (int step = 0; step < steps; ++step)
      for (int rank = 0; rank < mesh.size(); ++rank) {
        for (int i = 0; i < micro_batches; ++i) pass(rank, 1);
        for (int i = 0; i < micro_batches; ++i) pass(rank, -1);
        collective(rank, "data", data_group(rank));
        collective(rank, "world", world());
      }
  }

  int ranks() const { return mesh_.size(); }
  const std::vector<Instruction>& program(int rank) const { return programs_[at(rank)]; }
  const Group& group(int index) const { return groups_[at(index)]; }

  /// `rank` stops at the instruction `stops_at` of its program, having begun it.
  std::vector<RankReport> run_until_rank_stops(int rank, std::size_t stops_at) {
    return run(rank, stops_at, -1, 0);
  }
  /// This operation never ends, although all of its members come.
  std::vector<RankReport> run_until_operation_is_lost(int group, std::uint64_t sequence) {
    return run(-1, 0, group, sequence);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int p(int rank) const { return rank / (mesh_.data * mesh_.tensor); }
  int d(int rank) const { return rank / mesh_.tensor % mesh_.data; }
  int t(int rank) const { return rank % mesh_.tensor; }

  std::vector<int> tensor_group(int rank) const {
    std::vector<int> members;
    for (int i = 0; i < mesh_.tensor; ++i) members.push_back(mesh_.rank(p(rank), d(rank), i));
    return members;
  }
  std::vector<int> data_group(int rank) const {
    std::vector<int> members;
    for (int i = 0; i < mesh_.data; ++i) members.push_back(mesh_.rank(p(rank), i, t(rank)));
    return members;
  }
  std::vector<int> world() const {
    std::vector<int> members;
    for (int i = 0; i < mesh_.size(); ++i) members.push_back(i);
    return members;
  }

  int find_group(const std::string& name, bool channel, const std::vector<int>& members) {
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].name == name && groups_[i].members == members) return static_cast<int>(i);
    groups_.push_back({name, channel, members});
    return static_cast<int>(groups_.size()) - 1;
  }
  void add(int rank, Instruction::Kind kind, int group) {
    programs_[at(rank)].push_back({kind, group, group < 0 ? 0 : ++counters_[at(rank)][group]});
  }
  void collective(int rank, const std::string& name, const std::vector<int>& members) {
    if (members.size() > 1)
      add(rank, Instruction::Kind::collective, find_group(name, false, members));
  }
  void message(int rank, int from_stage, int to_stage) {
    if (from_stage < 0 || to_stage < 0 || from_stage == mesh_.pipeline ||
        to_stage == mesh_.pipeline)
      return;
    const int from = mesh_.rank(from_stage, d(rank), t(rank));
    const int to = mesh_.rank(to_stage, d(rank), t(rank));
    add(rank, rank == from ? Instruction::Kind::send : Instruction::Kind::receive,
        find_group("pipeline", true, {from, to}));
  }
  /// Forward (direction 1) or backward (-1) of a micro-batch on one stage.
  void pass(int rank, int direction) {
    message(rank, p(rank) - direction, p(rank));
    for (int half = 0; half < 2; ++half) {
      add(rank, Instruction::Kind::compute, -1);
      collective(rank, "tensor", tensor_group(rank));
    }
    message(rank, p(rank), p(rank) + direction);
  }

  std::vector<RankReport> run(int stops, std::size_t stops_at, int lost_group,
                              std::uint64_t lost_sequence);
  std::vector<RankReport> reports(int stopped) const;

  const SimulatedMesh mesh_;
  std::vector<Group> groups_;
  std::vector<std::vector<Instruction>> programs_;
  std::vector<std::map<int, std::uint64_t>> counters_;
  // Of one run.
  std::vector<std::size_t> position_;
  std::vector<bool> inside_;
  std::vector<std::map<int, std::uint64_t>> begun_, done_;
  bool begun_frozen_ = false;
  Instruction frozen_{};
};

}  // namespace trireme::observe
