// Implements run_on_threads (trireme/comm/mesh.h).
// Ranks as threads of one process, for tests. They run the same HostCommunicator as processes under
// MPI do: the states of nodes lie in a map that all share, and every address is in reach of all (or
// only what allocate() gave, to test the rest).
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/comm/messages.h"
#include "runtime/comm/node/host_communicator.h"
#include "runtime/comm/progress.h"
#include "runtime/comm/transport_mesh.h"

namespace trireme::comm {
namespace {

// Messages between threads. A send waits for its receive: the data is copied when both are there,
// by whichever side looks first, at any time. So a buffer that is read or written too early shows
// in tests.

/// The sends and receives of one group that have not met yet. Shared by its members.
class ThreadMailbox {
 public:
  struct PendingMessage {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    Index sent_bytes = -1, received_bytes = -1;  // -1: not there yet
    bool passed = false;
    bool withdrawn = false;  // one side has gone, after a failure
  };
  enum class Side { sender, receiver };
  using Path = std::tuple<Channel, int, int>;  // channel, sender, receiver

  std::shared_ptr<PendingMessage> send(const Path& path, const std::byte* data, Index bytes);
  std::shared_ptr<PendingMessage> receive(const Path& path, std::byte* data, Index bytes);
  /// Copies the message when both sides are there. True when it is done. Throws: Error on the side
  /// of the receiver, as MPI does, when the sizes differ.
  bool deliver(PendingMessage& message, Side side);
  /// Never touches the buffers again.
  void withdraw(PendingMessage& message);

 private:
  struct Line {
    std::deque<std::shared_ptr<PendingMessage>> messages;  // those that lack one side
  };
  std::mutex mutex_;
  std::map<Path, Line> lines_;
};

class ThreadMessages final : public Messages {
 public:
  ThreadMessages(std::shared_ptr<ThreadMailbox> mailbox, int rank, Progress& progress)
      : mailbox_(std::move(mailbox)), rank_(rank), progress_(progress) {}
  std::unique_ptr<MessageBatch> make_batch(Channel channel) override;

 private:
  std::shared_ptr<ThreadMailbox> mailbox_;
  int rank_;
  Progress& progress_;
};

std::shared_ptr<ThreadMailbox::PendingMessage> ThreadMailbox::send(const Path& path,
                                                                   const std::byte* data,
                                                                   Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& messages = lines_[path].messages;
  if (messages.empty() || messages.front()->received_bytes < 0) {
    messages.push_back(std::make_shared<PendingMessage>());
    messages.back()->from = data;
    messages.back()->sent_bytes = bytes;
    return messages.back();
  }
  std::shared_ptr<PendingMessage> message = messages.front();
  messages.pop_front();
  message->from = data;
  message->sent_bytes = bytes;
  return message;
}

std::shared_ptr<ThreadMailbox::PendingMessage> ThreadMailbox::receive(const Path& path,
                                                                      std::byte* data,
                                                                      Index bytes) {
  const std::lock_guard lock(mutex_);
  auto& messages = lines_[path].messages;
  if (messages.empty() || messages.front()->sent_bytes < 0) {
    messages.push_back(std::make_shared<PendingMessage>());
    messages.back()->to = data;
    messages.back()->received_bytes = bytes;
    return messages.back();
  }
  std::shared_ptr<PendingMessage> message = messages.front();
  messages.pop_front();
  message->to = data;
  message->received_bytes = bytes;
  return message;
}

bool ThreadMailbox::deliver(PendingMessage& message, Side side) {
  const std::lock_guard lock(mutex_);
  if (message.passed) return true;
  if (message.withdrawn || message.sent_bytes < 0 || message.received_bytes < 0) return false;
  if (side == Side::sender && message.sent_bytes != message.received_bytes) return false;
  require(message.sent_bytes == message.received_bytes, "a message of ", message.sent_bytes,
          " bytes meets a receive of ", message.received_bytes);
  if (message.sent_bytes > 0)
    std::memcpy(message.to, message.from, static_cast<std::size_t>(message.sent_bytes));
  return message.passed = true;
}

void ThreadMailbox::withdraw(PendingMessage& message) {
  const std::lock_guard lock(mutex_);
  message.withdrawn = true;
}

class ThreadBatch final : public MessageBatch {
 public:
  ThreadBatch(ThreadMailbox& mailbox, Channel channel, int rank, Progress& progress)
      : mailbox_(mailbox), channel_(channel), rank_(rank), progress_(progress) {}
  ~ThreadBatch() override {
    for (const Entry& entry : open_) mailbox_.withdraw(*entry.message);
  }

  void receive(int peer, void* data, Index bytes) override {
    open_.push_back(
        {peer, ThreadMailbox::Side::receiver,
         mailbox_.receive({channel_, peer, rank_}, static_cast<std::byte*>(data), bytes)});
  }
  void send(int peer, const void* data, Index bytes) override {
    open_.push_back(
        {peer, ThreadMailbox::Side::sender,
         mailbox_.send({channel_, rank_, peer}, static_cast<const std::byte*>(data), bytes)});
  }
  bool poll() override {
    for (std::size_t i = 0; i < open_.size();)
      if (passed(open_[i])) {
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    return open_.empty();
  }
  int waits_for() const override { return open_.empty() ? -1 : open_.front().peer; }

 private:
  struct Entry {
    int peer;
    ThreadMailbox::Side side;
    std::shared_ptr<ThreadMailbox::PendingMessage> message;
  };

  bool passed(const Entry& entry) {
    if (progress_.dice(4) == 1) return false;  // hostile: the messages pass in any order
    try {
      return mailbox_.deliver(*entry.message, entry.side);
    } catch (const Error& error) {
      throw Error(str("with rank ", entry.peer, ": ", error.what()));
    }
  }

  ThreadMailbox& mailbox_;
  Channel channel_;
  int rank_;
  Progress& progress_;
  std::vector<Entry> open_;
};

std::unique_ptr<MessageBatch> ThreadMessages::make_batch(Channel channel) {
  return std::make_unique<ThreadBatch>(*mailbox_, channel, rank_, progress_);
}

}  // namespace
}  // namespace trireme::comm

namespace trireme {
namespace comm {
namespace {

/// The states and bounce buffers of the members of a group on one (simulated) node.
struct ThreadNodeState {
  ThreadNodeState(int members_, Index bounce)
      : members(static_cast<std::size_t>(members_)),
        bounces(static_cast<std::size_t>(members_ * bounce)) {}
  std::vector<MemberState> members;
  std::vector<std::byte> bounces;
};

/// What the threads share.
struct ThreadWorld {
  ThreadWorld(const MeshShape& shape_, const ThreadTransport& transport_)
      : shape(shape_),
        transport(transport_),
        ended(std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(shape_.size()))) {}

  const MeshShape shape;
  const ThreadTransport transport;
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::shared_ptr<ThreadNodeState>>
      node_states;  // by id, first rank, node
  std::map<std::tuple<int, int>, std::shared_ptr<ThreadMailbox>> mailboxes;  // by id, first rank
  std::map<int, std::vector<std::pair<int, int>>> gathers;  // by round: (rank, value)
  std::map<const std::byte*, Index> allocated;              // what is in reach

  std::unique_ptr<std::atomic<bool>[]> ended;  // by rank
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // the first one
  int failed_rank = -1;
  std::string failure;

  int node_of(int rank) const {
    return transport.ranks_per_node > 0 ? rank / transport.ranks_per_node : 0;
  }
  void fail(int rank, std::exception_ptr why, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (failed) return;
    error = std::move(why);
    failed_rank = rank;
    failure = text;
    failed = true;
  }
  void check_failed() {
    if (!failed) return;
    const std::lock_guard lock(mutex);
    throw Error(str("rank ", failed_rank, " has failed: ", failure));
  }
};

class ThreadPeerMemory final : public PeerMemory {
 public:
  explicit ThreadPeerMemory(ThreadWorld& world) : world_(world) {}
  PeerAddress find(const void* data, Index bytes) const override {
    const auto* begin = static_cast<const std::byte*>(data);
    const PeerAddress address{PeerAddress::same_process,
                              static_cast<Index>(reinterpret_cast<std::intptr_t>(data))};
    if (bytes == 0 || world_.transport.reach == ThreadReachable::everything) return address;
    const std::lock_guard lock(world_.mutex);
    auto after = world_.allocated.upper_bound(begin);
    if (after == world_.allocated.begin()) return {};
    const auto& [start, length] = *std::prev(after);
    return begin + bytes <= start + length ? address : PeerAddress{};
  }
  std::byte* locate(int, PeerAddress address) const override {
    return reinterpret_cast<std::byte*>(static_cast<std::intptr_t>(address.offset));
  }

 private:
  ThreadWorld& world_;
};

class ThreadMesh final : public TransportMesh {
 public:
  ThreadMesh(ThreadWorld& world, int rank)
      : TransportMesh(world.shape, rank, options(world, rank)), world_(world), peer_memory_(world) {
    connect_all();
  }
  ~ThreadMesh() override { disconnect(); }

  Buffer allocate(Index bytes) override {
    Buffer memory = allocate_host(bytes);
    if (bytes == 0) return memory;
    const std::byte* data = memory.data();
    const std::lock_guard lock(world_.mutex);
    world_.allocated[data] = bytes;
    auto owned = std::make_shared<Buffer>(std::move(memory));
    return Buffer(owned->data(), bytes, std::shared_ptr<void>(nullptr, [this, owned, data](void*) {
                    const std::lock_guard relock(world_.mutex);
                    world_.allocated.erase(data);
                  }));
  }
  std::string memory_description() const override {
    return str("memory of ", world_.shape.size(), " threads");
  }
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

 private:
  static Progress::Options options(ThreadWorld& world, int rank) {
    const std::uint64_t seed = world.transport.hostile_seed;
    return {
        .timeout_s = world.transport.timeout_s,
        .cores_are_shared = true,
        .hostile_seed = seed == 0 ? 0 : seed * 1000 + static_cast<std::uint64_t>(rank),
        .while_waiting = [&world] { world.check_failed(); },
        .has_ended =
            [&world](int other) { return world.ended[static_cast<std::size_t>(other)].load(); }};
  }

  std::vector<int> gather(int value) override {
    const int round = rounds_++;
    {
      const std::lock_guard lock(world_.mutex);
      world_.gathers[round].emplace_back(rank(), value);
    }
    std::vector<int> values(static_cast<std::size_t>(shape().size()));
    const auto complete = [&] {
      const std::lock_guard lock(world_.mutex);
      const auto& entries = world_.gathers[round];
      for (const auto& [r, v] : entries) values[static_cast<std::size_t>(r)] = v;
      return static_cast<int>(entries.size()) == shape().size();
    };
    progress().wait_until(
        complete, [&] { return str("split of rank ", rank(), ": not all ranks came"); },
        [] { return -1; });
    return values;
  }

  std::unique_ptr<Communicator> connect(const std::string& name,
                                        const std::vector<int>& world_ranks, int id) override {
    std::vector<int> colors;
    int mine = 0;
    for (std::size_t i = 0; i < world_ranks.size(); ++i) {
      colors.push_back(world_.node_of(world_ranks[i]));
      if (world_ranks[i] == rank()) mine = static_cast<int>(i);
    }
    Topology topology(colors, mine);
    const std::lock_guard lock(world_.mutex);
    auto& shared = world_.node_states[{id, world_ranks[0], topology.node}];
    const Index bounce = bounce_bytes(topology.size());
    if (!shared) shared = std::make_shared<ThreadNodeState>(topology.locals(), bounce);
    auto& mailbox = world_.mailboxes[{id, world_ranks[0]}];
    if (!mailbox) mailbox = std::make_shared<ThreadMailbox>();
    NodeState state;
    state.owner = shared;
    for (int local = 0; local < topology.locals(); ++local) {
      state.members.push_back(&shared->members[static_cast<std::size_t>(local)]);
      state.bounces.push_back(shared->bounces.data() + local * bounce);
    }
    return std::make_unique<HostCommunicator>(HostCommunicatorParts{
        name, world_ranks, topology, std::move(state),
        std::make_unique<ThreadMessages>(mailbox, mine, progress()), &peer_memory_, &progress()});
  }

  ThreadWorld& world_;
  ThreadPeerMemory peer_memory_;
  int rounds_ = 0;
};

}  // namespace
}  // namespace comm

void run_on_threads(const MeshShape& shape, const std::function<void(Mesh&)>& f,
                    const ThreadTransport& transport) {
  comm::ThreadWorld world(shape, transport);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.size(); ++rank)
    threads.emplace_back([&world, &f, rank] {
      try {
        comm::ThreadMesh mesh(world, rank);
        f(mesh);
        world.ended[static_cast<std::size_t>(rank)] = true;
      } catch (const std::exception& error) {
        world.fail(rank, std::current_exception(), error.what());
      } catch (...) {
        world.fail(rank, std::current_exception(), "an exception that is no std::exception");
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (world.error) std::rethrow_exception(world.error);
}

}  // namespace trireme
