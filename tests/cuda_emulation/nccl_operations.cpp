// Collectives and messages of the emulated NCCL.
#include <algorithm>
#include <cstring>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/nccl_elements.h"
#include "tests/cuda_emulation/nccl_state.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {
namespace {

constexpr int poison = 0xff;  // NaN

/// One entry of a stream. Runs when those before it with the same resources have ended; hangs when
/// it makes no sense.
class Operation {
 public:
  explicit Operation(std::shared_ptr<Members> members)
      : members_(std::move(members)),
        resources_(*members_->resources),
        sequence_(++resources_.issued) {}
  virtual ~Operation() = default;
  bool step() {
    const bool turn = !hopeless_ && resources_.ended + 1 == sequence_;
    if (!resources_.aborted && !(turn && run())) return false;
    resources_.ended = std::max(resources_.ended, sequence_);
    return true;
  }

 protected:
  virtual bool run() = 0;
  bool hang(const std::string& why) {
    report(why + "; GPUs would hang here");
    hopeless_ = true;
    return false;
  }
  int world(int rank) const { return members_->world_ranks[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<Members> members_;
  Resources& resources_;
  std::uint64_t sequence_;

 private:
  bool hopeless_ = false;
};

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce };

struct Description {
  Kind kind;
  std::size_t count;  // elements of a part
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  auto operator<=>(const Description&) const = default;
  bool gives(int rank) const { return kind != Kind::broadcast || rank == root; }
  bool takes(int rank) const { return kind != Kind::reduce || rank == root; }
  std::string text() const {
    const char* const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                 "reduction"};
    return std::string(names[static_cast<int>(kind)]) + " of " + std::to_string(count) + " " +
           name_of(type) + (kind == Kind::reduce ? " to rank " + std::to_string(root) : "");
  }
};

struct CollectiveCall {
  Description what;
  const std::byte* in;  // of a rank that gives
  std::byte* out;       // of a rank that takes
};

class Collective {
 public:
  Collective(const Members& members, const CollectiveCall& call)
      : members_(members), what_(call.what), in_(call.in), out_(call.out) {}

  /// The input is taken, everything that the operation may write to is garbage until its end, and
  /// all get a message with the cause.
  void begin() {
    if (what_.gives(members_.rank)) input_.assign(in_, in_ + in_bytes());
    const bool inside =
        what_.kind == Kind::reduce_scatter && out_ >= in_ && out_ < in_ + in_bytes();
    if (inside) std::memset(const_cast<std::byte*>(in_), poison, in_bytes());
    if (what_.takes(members_.rank)) std::memset(out_, poison, out_bytes());
    cards_ = std::make_unique<Requests>();
    const int tag = members_.tags.of(Purpose::operations);
    for (int r = 0; r < members_.size(); ++r) {
      cards_->send(&what_, sizeof what_, world(r), tag, Requests::Send::buffered);
      arrived_.push_back(cards_->receive(sizeof what_, world(r), tag));
    }
  }
  bool all_have_begun() { return data_ != nullptr || cards_->all_done(); }
  /// From what another rank has begun; "": none.
  std::string difference() const {
    for (int r = 0; data_ == nullptr && r < members_.size(); ++r) {
      Description theirs;
      std::memcpy(&theirs, arrived_[static_cast<std::size_t>(r)], sizeof theirs);
      if (theirs != what_)
        return what_.text() + " on " + members_.who(members_.rank) + " but " + theirs.text() +
               " on " + members_.who(r);
    }
    return "";
  }
  bool data_has_arrived() {
    if (data_ == nullptr) send_data();
    return data_->all_done();
  }
  /// Sums go around a ring and end at the rank that owns the part, so the first summand is that of
  /// the next rank.
  void finish() {
    if (!what_.takes(members_.rank)) return;
    switch (what_.kind) {
      case Kind::all_reduce: {
        const std::size_t each = (what_.count + ranks() - 1) / ranks();
        for (std::size_t part = 0; part < ranks(); ++part)
          reduce(out_, arrived_, part + 1, std::min(what_.count, part * each),
                 std::min(what_.count, (part + 1) * each), what_.type, what_.op);
        break;
      }
      case Kind::reduce_scatter:
      case Kind::reduce:
        reduce(out_, arrived_, me() + 1, 0, what_.count, what_.type, what_.op);
        break;
      case Kind::all_gather:
        for (std::size_t r = 0; r < ranks(); ++r)
          std::memcpy(out_ + r * part_bytes(), arrived_[r], part_bytes());
        break;
      case Kind::broadcast:
        std::memcpy(out_, arrived_[0], part_bytes());
        break;
    }
  }

 private:
  int world(int rank) const { return members_.world_ranks[static_cast<std::size_t>(rank)]; }
  std::size_t part_bytes() const { return what_.count * bytes_of(what_.type); }
  std::size_t ranks() const { return static_cast<std::size_t>(members_.size()); }
  std::size_t me() const { return static_cast<std::size_t>(members_.rank); }
  std::size_t in_bytes() const {
    return part_bytes() * (what_.kind == Kind::reduce_scatter ? ranks() : 1);
  }
  std::size_t out_bytes() const {
    return part_bytes() * (what_.kind == Kind::all_gather ? ranks() : 1);
  }
  void send_data() {
    data_ = std::make_unique<Requests>();
    arrived_.clear();
    const int tag = members_.tags.of(Purpose::data);
    for (int r = 0; r < members_.size(); ++r) {
      const bool scatters = what_.kind == Kind::reduce_scatter;
      const std::size_t offset = scatters ? static_cast<std::size_t>(r) * part_bytes() : 0;
      if (what_.gives(members_.rank) && what_.takes(r))
        data_->send(input_.data() + offset, part_bytes(), world(r), tag, Requests::Send::buffered);
      if (what_.gives(r) && what_.takes(members_.rank))
        arrived_.push_back(data_->receive(part_bytes(), world(r), tag));
    }
  }

  const Members& members_;
  Description what_;
  const std::byte* in_;
  std::byte* out_;
  std::vector<std::byte> input_;
  std::unique_ptr<Requests> cards_, data_;
  std::vector<const std::byte*> arrived_;
};

/// One collective, or a group of them: all take their input before the first one writes.
class Collectives final : public Operation {
 public:
  Collectives(std::shared_ptr<Members> members, const std::vector<CollectiveCall>& calls)
      : Operation(std::move(members)) {
    for (const CollectiveCall& call : calls) collectives_.emplace_back(*members_, call);
  }

 protected:
  bool run() override {
    if (!begun_)
      for (Collective& each : collectives_) each.begin();
    begun_ = true;
    for (; ended_ < collectives_.size(); ++ended_) {
      Collective& next = collectives_[ended_];
      if (!next.all_have_begun()) return false;
      const std::string difference = next.difference();
      if (!difference.empty())
        return hang("operation " + std::to_string(sequence_) + " is " + difference);
      if (!next.data_has_arrived()) return false;
      next.finish();
    }
    return true;
  }

 private:
  std::vector<Collective> collectives_;
  std::size_t ended_ = 0;
  bool begun_ = false;
};

struct EmulatedMessage {
  void* data;
  std::size_t bytes;
  int peer;
  enum class Direction { send, receive } direction;
};

/// A group of sends and receives, which end together.
class Messages final : public Operation {
 public:
  Messages(std::shared_ptr<Members> members, std::vector<EmulatedMessage> messages)
      : Operation(std::move(members)), messages_(std::move(messages)) {}

 protected:
  bool run() override {
    if (!requests_) begin();
    if (!requests_->all_done()) return false;
    if (requests_->failed())
      return hang("a message that " + members_->who(members_->rank) + " receives in operation " +
                  std::to_string(sequence_) + " has another size there than here");
    for (std::size_t m = 0; m < messages_.size(); ++m)
      if (arrived_[m] != nullptr) std::memcpy(messages_[m].data, arrived_[m], messages_[m].bytes);
    return true;
  }

 private:
  void begin() {
    requests_ = std::make_unique<Requests>();
    const int tag = members_->tags.of(Purpose::messages);
    for (const EmulatedMessage& m : messages_) {
      const bool sends = m.direction == EmulatedMessage::Direction::send;
      arrived_.push_back(sends ? nullptr : requests_->receive(m.bytes, world(m.peer), tag));
      if (sends)
        requests_->send(m.data, m.bytes, world(m.peer), tag, Requests::Send::waits_for_its_receive);
    }
    for (std::size_t m = 0; m < messages_.size(); ++m)
      if (arrived_[m] != nullptr) std::memset(messages_[m].data, poison, messages_[m].bytes);
  }

  std::vector<EmulatedMessage> messages_;
  std::unique_ptr<Requests> requests_;
  std::vector<const std::byte*> arrived_;
};

/// What was called between ncclGroupStart and ncclGroupEnd: messages or collectives of one
/// communicator on one stream.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<EmulatedMessage> messages;
  std::vector<CollectiveCall> collectives;
  /// Whether a call may be added to those of this group.
  bool takes(ncclComm_t of, cudaStream_t on) {
    const bool empty = messages.empty() && collectives.empty();
    if (depth == 0 || (!empty && (comm != of || stream != on))) return false;
    comm = of;
    stream = on;
    return true;
  }
};
Group& group() {
  static Group one;
  return one;
}

void push(cudaStream_t stream, const char* name, std::shared_ptr<Operation> operation) {
  Stream* to =
      stream == nullptr ? &Streams::instance().default_stream() : reinterpret_cast<Stream*>(stream);
  Streams::instance().push(*to, name,
                           [operation = std::move(operation)] { return operation->step(); });
}

/// The first calls of a communicator, and later ones now and then, reach the stream only some polls
/// later, as when NCCL still connects ranks: a host that records an event before has recorded too
/// early.
ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, const char* name,
                    std::shared_ptr<Operation> operation) {
  constexpr int every = 7;
  if (comm->calls++ % every != 0) {
    push(stream, name, std::move(operation));
    return ncclSuccess;
  }
  return go_on_later(comm, [=] {
    push(stream, name, operation);
    return true;
  });
}

ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, const char* name,
                        const Description& what, const void* in, void* out) {
  const Members& members = *comm->members;
  const auto ranks = static_cast<std::size_t>(members.size());
  const std::size_t part = what.count * bytes_of(what.type);
  if (comm->pending || bytes_of(what.type) == 0 || what.root >= members.size() || what.root < 0)
    return ncclInvalidArgument;
  if (what.type == ncclBfloat16 && what.op != ncclSum) return ncclInvalidUsage;  // not emulated
  if (what.count == 0) return ncclSuccess;
  if (what.gives(members.rank) &&
      !is_device_memory(in, part * (what.kind == Kind::reduce_scatter ? ranks : 1)))
    return ncclInvalidArgument;
  if (what.takes(members.rank) &&
      !is_device_memory(out, part * (what.kind == Kind::all_gather ? ranks : 1)))
    return ncclInvalidArgument;
  constexpr std::size_t large = 64 << 10;
  const bool scattered = what.kind == Kind::reduce_scatter || what.kind == Kind::all_gather;
  if (!comm->members->resources->connect(part * (scattered ? ranks : 1) > large
                                             ? Connection::large_collectives
                                             : Connection::small_collectives))
    return ncclUnhandledCudaError;
  const CollectiveCall call{what, static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  Group& g = group();
  if (g.depth == 0)
    return launch(comm, stream, name,
                  std::make_shared<Collectives>(comm->members, std::vector{call}));
  if (!g.messages.empty() || !g.takes(comm, stream)) return ncclInvalidUsage;  // not emulated
  g.collectives.push_back(call);
  return ncclSuccess;
}

ncclResult_t message(ncclComm_t comm, cudaStream_t stream, EmulatedMessage m) {
  Group& g = group();
  if (comm->pending || m.peer < 0 || m.peer >= comm->members->size() ||
      !is_device_memory(m.data, m.bytes))
    return ncclInvalidArgument;
  if (!g.collectives.empty() || !g.takes(comm, stream)) return ncclInvalidUsage;  // not emulated
  g.messages.push_back(m);
  return ncclSuccess;
}

}  // namespace

int group_depth() { return group().depth; }

}  // namespace trireme::emulation

using namespace trireme::emulation;

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, "ncclAllReduce", {Kind::all_reduce, count, type, op, 0}, in, out);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, "ncclReduceScatter", {Kind::reduce_scatter, count, type, op, 0},
                    in, out);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, "ncclAllGather", {Kind::all_gather, count, type, ncclSum, 0}, in,
                    out);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, "ncclBroadcast", {Kind::broadcast, count, type, ncclSum, root},
                    in, out);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, "ncclReduce", {Kind::reduce, count, type, op, root}, in, out);
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return message(
      comm, stream,
      {const_cast<void*>(data), count * bytes_of(type), peer, EmulatedMessage::Direction::send});
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message(comm, stream,
                 {data, count * bytes_of(type), peer, EmulatedMessage::Direction::receive});
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  Group& g = group();
  if (--g.depth == 0) free_aborted();
  if (g.depth > 0) return ncclSuccess;
  if (!g.collectives.empty())
    return launch(g.comm, g.stream, "a group of collectives",
                  std::make_shared<Collectives>(g.comm->members, std::exchange(g.collectives, {})));
  if (g.messages.empty()) return ncclSuccess;
  if (!g.comm->members->resources->connect(Connection::messages)) {
    g.messages.clear();
    return ncclUnhandledCudaError;
  }
  auto operation = std::make_shared<Messages>(g.comm->members, std::exchange(g.messages, {}));
  return launch(g.comm, g.stream, "ncclSend and ncclRecv", std::move(operation));
}

}  // extern "C"
