// World: the ranks of a simulated job, and the mesh that each of them has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/transport_mesh.h"
#include "runtime/cost/network.h"
#include "tests/virtual_clock/queues.h"
#include "tests/virtual_clock/tasks.h"

namespace trireme::virtual_clock {

/// What the members of a group share.
struct Group {
  Group(std::vector<int> ranks_, CollectiveQueue::Seconds collective,
        ExchangeQueue::Seconds message)
      : ranks(std::move(ranks_)),
        collectives(static_cast<int>(ranks.size()), std::move(collective)),
        exchanges(static_cast<int>(ranks.size()), std::move(message)),
        barriers(ranks.size(), 0) {}

  std::vector<int> ranks;  // of the world
  CollectiveQueue collectives;
  ExchangeQueue exchanges;
  std::vector<Index> barriers;  // per member: those that it has entered
};

class World {
 public:
  /// `profile` and `network` are borrowed: what communication takes.
  World(const MeshShape& shape, const cost::Profile& profile, const cost::Network& network)
      : shape_(shape),
        profile_(profile),
        network_(network),
        tasks_(std::make_unique<Tasks>(shape.size())) {}

  const MeshShape& shape() const { return shape_; }
  Tasks& tasks() { return *tasks_; }
  /// The mesh of one rank, made in its task. Collective.
  std::unique_ptr<Mesh> make_mesh(int rank);

  // For the meshes.
  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, int id);
  /// Collective: the values of all ranks in round `round`.
  std::vector<int> gather(int round, int rank, int value);

 private:
  double seconds(const CollectiveWork& work, const std::string& name,
                 const std::vector<int>& ranks) const;

  struct Gather {
    std::vector<int> values;
    int given = 0;
  };
  MeshShape shape_;
  const cost::Profile& profile_;
  const cost::Network& network_;
  std::unique_ptr<Tasks> tasks_;
  std::map<std::pair<int, int>, std::shared_ptr<Group>> groups_;  // by id and first rank
  std::map<int, Gather> gathers_;
};

}  // namespace trireme::virtual_clock
