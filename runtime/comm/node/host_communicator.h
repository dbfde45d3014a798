// HostCommunicator: a communicator of ranks whose data is in host memory. On a node its members
// work in each other's buffers; between nodes, and for `exchange`, they send messages. The same
// code runs for threads and for processes under MPI.
//
// start_* posts a collective. Once all members of the node have posted it, each does its share in
// poll() and then reports it (arrive); the collective is done when all have arrived. Collectives
// run in the order of their start, exchanges independently.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/communicator.h"

#include "runtime/comm/messages.h"
#include "runtime/comm/node/node_state.h"
#include "runtime/comm/node/shown_group.h"
#include "runtime/comm/node/topology.h"
#include "runtime/comm/progress.h"

namespace trireme::comm {

/// CollectiveTask: a collective in progress, a coroutine that suspends where it must wait for other
/// ranks. Nothing is allocated: the frame is in a fixed buffer of the communicator that runs it.
class CollectiveTask {
 public:
  struct promise_type {
    bool (*ready)(void*) = nullptr;  // what the coroutine waits for
    void* condition = nullptr;
    std::exception_ptr error;

    CollectiveTask get_return_object() {
      return CollectiveTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
    /// The coroutine is a member function of `owner`, which keeps the frame.
    template <class Owner, class... Args>
    static void* operator new(std::size_t bytes, Owner& owner, const Args&...) {
      return owner.frame(bytes);
    }
    static void operator delete(void*) noexcept {}
  };

  CollectiveTask() = default;
  explicit CollectiveTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  CollectiveTask(CollectiveTask&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CollectiveTask& operator=(CollectiveTask&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CollectiveTask() {
    if (handle_) handle_.destroy();
  }
  explicit operator bool() const { return static_cast<bool>(handle_); }

  /// Runs as far as possible without waiting; true once it has ended. Rethrows its exception.
  bool run() {
    promise_type& promise = handle_.promise();
    if (promise.ready && !promise.ready(promise.condition)) return false;
    promise.ready = nullptr;
    handle_.resume();
    if (promise.error) std::rethrow_exception(promise.error);
    return handle_.done();
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// co_await until(f): continues once f() is true.
template <class F>
struct Until {
  F ready;
  bool await_ready() { return ready(); }
  void await_suspend(std::coroutine_handle<CollectiveTask::promise_type> handle) {
    handle.promise().condition = this;
    handle.promise().ready = [](void* self) { return static_cast<Until*>(self)->ready(); };
  }
  void await_resume() {}
};
template <class F>
Until<F> until(F ready) {
  return {ready};
}

/// What a transport gives to a communicator.
struct HostCommunicatorParts {
  std::string name;
  std::vector<int> world_ranks;  // per rank of the group
  Topology topology;
  NodeState node;
  std::unique_ptr<Messages> messages;
  const PeerMemory* peer_memory;
  Progress* progress;
};

class HostCommunicator final : public Communicator, public Pending {
 public:
  explicit HostCommunicator(HostCommunicatorParts parts);
  ~HostCommunicator() override;

  int rank() const override { return parts_.topology.rank; }
  int size() const override { return parts_.topology.size(); }
  std::string_view name() const override { return parts_.name; }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override;
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override;
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override;
  Ticket start_broadcast(Elements x, int root, Stream& stream) override;
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override;
  void progress() override { parts_.progress->poll(); }
  bool done(Ticket ticket) override;
  void wait(Ticket ticket, Stream& stream) override;
  void barrier() override;

  bool poll() override;
  void fail(const std::string& why) override;
  /// Memory for the frame of the one collective that runs; for CollectiveTask.
  void* frame(std::size_t bytes);

 private:
  struct Operation {
    CollectiveCall call;
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    Parts parts;        // without counts where they are equal
    Index done_at = 0;  // arrivals of every member after which it is done
    observe::Operation shown;
  };
  struct Exchange {
    Index sequence = 0;  // number of the last exchange that used this place
    bool pending = false;
    std::unique_ptr<MessageBatch> batch;
    std::vector<observe::Operation> shown;  // one a message; reused
  };
  /// Sent before the first message between two ranks in a collective, to check that both run the
  /// same operation.
  struct Header {
    int peer = 0;
    Index sequence = 0;
    CollectiveCall call;
  };
  static constexpr Index exchanges_in_flight = 64;

  // group.cpp: state of operations
  Ticket start(Collective collective, Reduction reduction, int root, Elements in, Elements out,
               Parts parts = {});
  bool poll_collectives();
  void check_members() const;
  bool finished(Index sequence);
  bool exchanged(Index sequence) const;
  void wait_collective(Index sequence);
  void wait_exchange(Index sequence);
  template <class F>
  void for_each_missing(Index sequence, F f) const;
  int first_missing(Index sequence) const;
  std::string waiting_for(Index sequence) const;
  std::string who(int rank) const;
  int world_rank(int rank) const;
  observe::StatusPage& page() const { return shown_.page(); }

  // What the members do
  CollectiveTask run(const Operation& op);
  CollectiveTask all_reduce(const Operation& op);
  CollectiveTask reduce_scatter(const Operation& op);
  CollectiveTask all_gather(const Operation& op);
  CollectiveTask broadcast(const Operation& op);
  CollectiveTask barrier(const Operation& op);
  void scatter_over_nodes(Index count, Index element, std::byte* partial, std::byte* incoming);
  void gather_over_nodes(Index count, Index element, std::byte* sums);
  Index place_parts(const Operation& op);
  void reduce_over_node(const Operation& op, Index offset_bytes, Index count);
  void reduce_over_nodes(const Operation& op, const std::byte* partial, const std::byte* incoming,
                         Index count, std::byte* to);

  // What they are made of
  bool all_posted() const;
  bool all_arrived(Index step);
  void arrive();
  /// co_await meet(): continues once all members of the node have come this far.
  auto meet() {
    arrive();
    return until([this] { return all_arrived(arrived_); });
  }
  void open(const Operation& op);
  Index chunk_count(const Operation& op, int parts) const;
  const CollectiveCall& call_of(int local) const;
  std::byte* locate(int local, PeerAddress address) const;
  std::byte* input_of(const Operation& op, int local) const;
  std::byte* output_of(const Operation& op, int local) const;
  std::byte* bounce_of(int local) const;
  void send(int peer, const std::byte* data, Index bytes);
  void receive(int peer, std::byte* data, Index bytes);
  void check_headers() const;
  bool all_passed();

  HostCommunicatorParts parts_;
  MemberState& mine_;
  std::array<Operation, MemberState::ring> operations_;
  Index started_ = 0;      // collectives started here
  Index running_ = 1;      // the first that has not ended here
  Index arrived_ = 0;      // steps done here
  Index all_arrived_ = 0;  // steps that every local member has done, as far as seen
  CollectiveTask task_;
  alignas(64) std::array<std::byte, 2048> frame_;

  // The state of the running collective.
  bool staged_ =
      false;  // goes through the bounce buffers, because some member's data is out of reach
  bool announce_ = false;  // headers go ahead of messages
  std::unique_ptr<MessageBatch> batch_;
  std::vector<Header> headers_;
  Header header_;
  std::vector<Index> borders_;      // offsets of its parts in elements, and behind them the total
  std::vector<std::byte> scratch_;  // partial results, and what came from other nodes
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;

  std::array<Exchange, exchanges_in_flight> exchanges_;
  Index exchanges_started_ = 0;
  Index exchanges_pending_ = 0;
  ShownGroup shown_;
  Index delay_ = 0;  // hostile: polls to let pass
  std::string failure_;
};

}  // namespace trireme::comm
