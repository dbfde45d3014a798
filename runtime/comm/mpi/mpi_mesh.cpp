#include "runtime/comm/mpi/mpi_mesh.h"

#include <algorithm>
#include <new>

#include "runtime/comm/mpi/mpi_messages.h"
#include "runtime/comm/node/host_communicator.h"

namespace trireme::comm {
namespace {

/// Runs `work`; the message when it failed, else nothing.
template <class F>
std::string failure_of(F work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

MpiComm make_comm(const MpiComm& world, const std::vector<int>& ranks, int id) {
  MPI_Group everyone = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  check(MPI_Comm_group(world.get(), &everyone), "MPI_Comm_group");
  const int included =
      MPI_Group_incl(everyone, static_cast<int>(ranks.size()), ranks.data(), &members);
  MPI_Group_free(&everyone);
  check(included, "MPI_Group_incl");
  MPI_Comm comm = MPI_COMM_NULL;
  const int created = MPI_Comm_create_group(world.get(), members, id % 32768, &comm);
  MPI_Group_free(&members);
  check(created, "MPI_Comm_create_group");
  return MpiComm(comm);
}

MpiComm split_comm(const MpiComm& comm, int color) {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm.get(), color, comm.rank(), &part), "MPI_Comm_split");
  return MpiComm(part);
}

Index state_bytes(int members, Index bounce) {
  return members * (static_cast<Index>(sizeof(MemberState)) + bounce);
}

NodeState lay_out(std::byte* memory, int members, Index bounce, std::shared_ptr<void> owner) {
  NodeState state;
  state.owner = std::move(owner);
  for (int m = 0; m < members; ++m)
    state.members.push_back(reinterpret_cast<MemberState*>(memory) + m);
  std::byte* bounces = memory + members * static_cast<Index>(sizeof(MemberState));
  for (int m = 0; m < members; ++m) state.bounces.push_back(bounces + m * bounce);
  return state;
}

/// The state that the ranks of `local` share, made by the first of them; none when that is
/// impossible for any.
std::optional<NodeState> share_state(const MpiComm& local, Index bounce) {
  const int members = local.size();
  const Index bytes = state_bytes(members, bounce);
  auto memory = std::make_shared<SharedMemory>();
  std::string failure;
  if (local.rank() == 0)
    failure = failure_of([&] {
      *memory = SharedMemory::create(bytes);
      for (int m = 0; m < members; ++m)
        new (reinterpret_cast<MemberState*>(memory->data()) + m) MemberState;
    });
  const std::string name = local.broadcast(memory->name(), 0);
  if (local.rank() != 0 && !name.empty())
    failure = failure_of([&] { *memory = SharedMemory::open(name, bytes); });
  if (local.first_that(name.empty() || !failure.empty()) >= 0) return std::nullopt;
  memory->hide();
  return lay_out(memory->data(), members, bounce, memory);
}

/// The state of a rank that is alone on its node, or treated as such.
NodeState own_state() {
  auto member = std::make_shared<MemberState>();
  NodeState state;
  state.members.push_back(member.get());
  state.bounces.push_back(nullptr);  // no other member to read it
  state.owner = member;
  return state;
}

}  // namespace

MpiMesh::MpiMesh(const MpiJob& job, const MeshShape& shape, double timeout_s)
    : TransportMesh(shape, job.rank, options(job, timeout_s)),
      job_(job),
      memory_description_(
          str("shared memory of ", job.node_ranks.size(), " ranks on node ", job.node_name)) {
  connect_all();
}

Progress::Options MpiMesh::options(const MpiJob& job, double timeout_s) {
  // A send that MPI has queued progresses only inside MPI calls.
  const auto poke = [comm = job.world.get()] {
    int found = 0;
    constexpr int unused_tag = 2;
    check(MPI_Iprobe(MPI_ANY_SOURCE, unused_tag, comm, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  };
  return {.timeout_s = timeout_s,
          .cores_are_shared = job.cores_are_shared,
          .while_waiting = poke,
          .has_ended = [end = job.end.get()](int rank) { return end->has_ended(rank); },
          .page = job.page};
}

std::unique_ptr<Communicator> MpiMesh::connect(const std::string& name,
                                               const std::vector<int>& world_ranks, int id) {
  MpiComm comm = make_comm(job_.world, world_ranks, id);
  const MpiComm local = split_comm(comm, job_.node_ranks[0]);
  std::optional<NodeState> state;
  if (local.size() > 1) state = share_state(local, bounce_bytes(comm.size()));
  // Without a common state every rank counts as a node of its own.
  const int color = state ? job_.node_ranks[0] : job_.rank;
  if (!state) state = own_state();
  Topology topology(comm.gather(color), comm.rank());
  return std::make_unique<HostCommunicator>(HostCommunicatorParts{
      name, world_ranks, std::move(topology), std::move(*state),
      std::make_unique<MpiMessages>(std::move(comm)), &peer_memory_, &progress()});
}

/// Collective: true when no rank has a `failure`. Otherwise keeps the first one as the description.
bool MpiMesh::all_succeed(const std::string& failure) {
  const int failed = job_.world.first_that(!failure.empty());
  if (failed < 0) return true;
  memory_description_ =
      job_.world.broadcast(str("private memory, which makes collectives slower, because on node ",
                               job_.node_name, " ", failure),
                           failed);
  return false;
}

/// Each rank's `bytes` in shared memory, mapped by all of its node; nothing when that is impossible
/// on any node.
std::optional<std::vector<SharedPeerMemory::Part>> MpiMesh::share(Index bytes) {
  Index node_bytes = bytes;
  check(MPI_Allreduce(&bytes, &node_bytes, 1, MPI_INT64_T, MPI_SUM, job_.node.get()),
        "MPI_Allreduce");
  const int node_size = static_cast<int>(job_.node_ranks.size());
  if (!all_succeed(failure_of([&] { require_shared_memory(node_bytes, node_size); })))
    return std::nullopt;

  SharedMemory mine;
  if (!all_succeed(failure_of([&] {
        if (bytes > 0) mine = SharedMemory::create(bytes);
      })))
    return std::nullopt;

  struct Card {
    char name[64] = "";
    Index bytes = 0;
  };
  Card card;
  card.bytes = bytes;
  mine.name().copy(card.name, sizeof(card.name) - 1);
  std::vector<Card> cards(job_.node_ranks.size());
  check(MPI_Allgather(&card, sizeof(Card), MPI_BYTE, cards.data(), sizeof(Card), MPI_BYTE,
                      job_.node.get()),
        "MPI_Allgather");

  std::vector<SharedPeerMemory::Part> parts;
  if (!all_succeed(failure_of([&] {
        for (std::size_t i = 0; i < cards.size(); ++i) {
          parts.push_back({job_.node_ranks[i], {}});
          if (job_.node_ranks[i] != job_.rank && cards[i].bytes > 0)
            parts.back().memory = SharedMemory::open(cards[i].name, cards[i].bytes);
        }
      })))
    return std::nullopt;
  mine.hide();
  const auto my_part = std::find_if(
      parts.begin(), parts.end(),
      [&](const SharedPeerMemory::Part& part) { return part.world_rank == job_.rank; });
  my_part->memory = std::move(mine);
  return parts;
}

Buffer MpiMesh::allocate(Index bytes) {
  require(bytes >= 0, "cannot allocate ", bytes, " bytes");
  world().barrier();  // MPI's own collectives would hang if another rank does something else
  auto parts = share(bytes);
  if (!parts) return allocate_host(bytes);
  const auto mine = std::find(job_.node_ranks.begin(), job_.node_ranks.end(), job_.rank);
  const auto index = static_cast<std::size_t>(mine - job_.node_ranks.begin());
  std::byte* data = (*parts)[index].memory.data();
  const Index segment = peer_memory_.add(std::move(*parts), index);
  return Buffer(data, bytes, std::shared_ptr<void>(nullptr, [this, segment](void*) {
                  peer_memory_.drop(segment);
                }));
}

void MpiMesh::abort(int code) {
  MPI_Abort(job_.world.get(), code);
  std::_Exit(code);
}

}  // namespace trireme::comm
