#include "runtime/comm/mpi/mpi_mesh.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "runtime/comm/messages.h"
#include "runtime/comm/mpi/mpi_calls.h"
#include "runtime/comm/node/host_communicator.h"

namespace trireme::comm {
namespace {

/// Messages over MPI point-to-point calls.
class MpiMessages final : public Messages {
 public:
  /// `comm` has the ranks of the group, in their order.
  explicit MpiMessages(MpiComm comm) : comm_(std::move(comm)) {}
  std::unique_ptr<MessageBatch> make_batch(Channel channel) override;

 private:
  MpiComm comm_;
};

constexpr Index largest_message = Index{1} << 30;  // MPI counts are int

class MpiBatch final : public MessageBatch {
 public:
  MpiBatch(MPI_Comm comm, Channel channel) : comm_(comm), tag_(static_cast<int>(channel)) {
    open_.reserve(16);
  }
  ~MpiBatch() override {  // not empty only after a failure
    for (Entry& entry : open_) {
      if (entry.request == MPI_REQUEST_NULL) continue;
      if (entry.direction == Direction::receive) MPI_Cancel(&entry.request);
      MPI_Request_free(&entry.request);
    }
  }

  void receive(int peer, void* data, Index bytes) override {
    each_part(peer, static_cast<std::byte*>(data), bytes, Direction::receive);
  }
  void send(int peer, const void* data, Index bytes) override {
    each_part(peer, const_cast<std::byte*>(static_cast<const std::byte*>(data)), bytes,
              Direction::send);
  }

  bool poll() override {
    for (Entry& entry : open_)
      if (entry.request != MPI_REQUEST_NULL) test(entry);
    std::erase_if(open_, [](const Entry& entry) { return entry.request == MPI_REQUEST_NULL; });
    return open_.empty();
  }
  int waits_for() const override { return open_.empty() ? -1 : open_.front().peer; }

 private:
  enum class Direction { send, receive };
  struct Entry {
    int peer = 0;
    int bytes = 0;
    Direction direction = Direction::send;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void each_part(int peer, std::byte* data, Index bytes, Direction direction) {
    do {
      Entry entry{peer, static_cast<int>(std::min(bytes, largest_message)), direction,
                  MPI_REQUEST_NULL};
      if (direction == Direction::send)
        check(MPI_Isend(data, entry.bytes, MPI_BYTE, peer, tag_, comm_, &entry.request),
              "MPI_Isend");
      else
        check(MPI_Irecv(data, entry.bytes, MPI_BYTE, peer, tag_, comm_, &entry.request),
              "MPI_Irecv");
      open_.push_back(entry);
      data += entry.bytes;
      bytes -= entry.bytes;
    } while (bytes > 0);
  }

  /// Sets the request to null when the message has passed, or failed.
  static void test(Entry& entry) {
    int done = 0;
    MPI_Status status;
    try {
      const int code = MPI_Test(&entry.request, &done, &status);
      if (code != MPI_SUCCESS) entry.request = MPI_REQUEST_NULL;
      check(code, "MPI_Test");
      if (!done || entry.direction == Direction::send) return;
      int received = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
      require(received == entry.bytes, "a message of ", received, " bytes meets a receive of ",
              entry.bytes);
    } catch (const Error& error) {
      throw Error(str("with rank ", entry.peer, ": ", error.what()));
    }
  }

  MPI_Comm comm_;
  int tag_;
  std::vector<Entry> open_;
};

std::unique_ptr<MessageBatch> MpiMessages::make_batch(Channel channel) {
  return std::make_unique<MpiBatch>(comm_.get(), channel);
}

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

// Questions and answers are messages without content. A rank enters the last barrier when all of
// its questions have been answered: when the barrier is complete, no message is in flight.

namespace {

constexpr int question_tag = 1, answer_tag = 2;

void sleep_us(long us) {
  const timespec time{0, us * 1000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

JobEnd::JobEnd(MpiComm world)
    : world_(std::move(world)), states_(static_cast<std::size_t>(world_.size()), State::unknown) {}

bool JobEnd::has_ended(int rank) {
  State& state = states_[static_cast<std::size_t>(rank)];
  if (state == State::unknown) {
    send(rank, question_tag);
    state = State::asked;
    ++open_;
  }
  collect();
  return state == State::ended;
}

void JobEnd::wait_for_all(observe::StatusPage* page) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  bool entered = false;
  int done = 0;
  for (long pause_us = 1; !done; pause_us = std::min(2 * pause_us, 1000L)) {
    answer();
    collect();
    if (!entered && open_ == 0) {
      check(MPI_Ibarrier(world_.get(), &barrier), "MPI_Ibarrier");
      entered = true;
    }
    if (entered) check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (page != nullptr) page->heartbeat();
    if (!done) sleep_us(pause_us);
  }
}

void JobEnd::answer() {
  for (int rank; (rank = receive(question_tag)) >= 0;) send(rank, answer_tag);
}

void JobEnd::collect() {
  for (int rank; (rank = receive(answer_tag)) >= 0; --open_)
    states_[static_cast<std::size_t>(rank)] = State::ended;
}

int JobEnd::receive(int tag) const {
  int found = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, tag, world_.get(), &found, &status), "MPI_Iprobe");
  if (!found) return -1;
  check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, tag, world_.get(), MPI_STATUS_IGNORE),
        "MPI_Recv");
  return status.MPI_SOURCE;
}

void JobEnd::send(int rank, int tag) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, tag, world_.get(), &request), "MPI_Isend");
  check(MPI_Request_free(&request), "MPI_Request_free");
}

}  // namespace trireme::comm
