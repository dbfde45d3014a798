#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <exception>

#include "runtime/comm/arguments.h"
#include "runtime/comm/transport_mesh.h"
#include "runtime/core/poll.h"

namespace trireme::nccl {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  throw Error("unknown dtype");
}

ncclRedOp_t nccl_reduction(Reduction reduction) {
  return reduction == Reduction::sum ? ncclSum : reduction == Reduction::max ? ncclMax : ncclMin;
}

std::size_t unsigned_count(Index count) { return static_cast<std::size_t>(count); }

/// The calls of NCCL that `issue` makes, in one NCCL group; it passes their results to the function
/// that it gets. The group is ended after an error, too: otherwise no later call has an effect.
template <class Issue>
ncclResult_t in_one_nccl_group(Issue issue) {
  check(ncclGroupStart(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  issue([&](ncclResult_t one) {
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  });
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

/// Calls f(rank, elements before its part, elements of its part) for each part with elements.
template <class F>
void for_each_part(Parts parts, F f) {
  Index begin = 0;
  for (std::size_t rank = 0; rank < parts.counts.size(); ++rank) {
    const Index count = parts.counts[rank];
    if (count > 0) f(static_cast<int>(rank), begin, unsigned_count(count));
    begin += count;
  }
}

cudaStream_t cuda_stream_of(Stream& stream) {
  require(stream.device().kind() == DeviceKind::cuda,
          "NCCL works on memory of a GPU, with a stream of that GPU");
  return static_cast<cudaStream_t>(stream.native());
}

}  // namespace

NcclCommunicator::NcclCommunicator(Group group, Watchdog& watchdog, Device& gpu,
                                   const NcclOptions& options)
    : group_(std::move(group)),
      watchdog_(watchdog),
      serialize_(options.serialize),
      cuda_stream_(make_cuda_stream()),
      ready_(make_event()),
      shown_(watchdog.page(), "GPU " + group_.name, group_.world_ranks, group_.rank) {
  constexpr std::size_t usual_messages = 4;  // of one exchange, at most: more grow the list
  for (Operation& operation : operations_) {
    operation.end = make_event();
    if (shown_.page().on()) operation.shown.reserve(usual_messages);
  }
  if (options.order_check == OrderCheck::on)
    order_ = std::make_unique<CollectiveOrder>(*group_.host, group_.world_ranks, gpu);
  watchdog_.add(this);
}

NcclCommunicator::~NcclCommunicator() {
  const auto abandon = [&] {
    watchdog_.abandon({std::move(group_.host), std::move(cuda_stream_), std::move(group_.comm),
                       std::move(order_)});
  };
  try {
    if (std::uncaught_exceptions() > 0 || watchdog_.failed()) {
      abandon();
    } else {
      if (order_) order_->finish();
      group_.comm.finish({watchdog_.timeout_s(), [&] {
                            watchdog_.heartbeat();
                            watchdog_.poll_groups();
                          }});
    }
  } catch (const std::exception& error) {
    watchdog_.fail(error.what());
    abandon();
  }
  watchdog_.remove(this);
}

void NcclCommunicator::check_sums(const comm::CollectiveCall& call) const {
  comm::arguments::check_reduction(*this, call.collective, call.dtype, call.reduction);
}

Ticket NcclCommunicator::start_all_reduce(Elements x, Reduction reduction, Stream& stream) {
  const comm::CollectiveCall call{
      comm::Collective::all_reduce, x.dtype, reduction, 0, x.count, {}, {}};
  check_sums(call);
  return start(call, stream, [&] {
    return ncclAllReduce(x.data, x.data, unsigned_count(x.count), nccl_type(x.dtype),
                         nccl_reduction(reduction), group_.comm.get(), cuda_stream_.get());
  });
}

Ticket NcclCommunicator::start_reduce_scatter(Elements in, Elements out, Reduction reduction,
                                              Stream& stream, Parts parts) {
  const Parts unequal = comm::arguments::check_reduce_scatter(*this, in, out, parts);
  const Index count = unequal.counts.empty() ? out.count : in.count;
  const comm::CollectiveCall call{comm::Collective::reduce_scatter,
                                  in.dtype,
                                  reduction,
                                  0,
                                  count,
                                  {},
                                  {},
                                  comm::cut_of(unequal)};
  check_sums(call);
  return start(call, stream, [&] {
    if (!unequal.counts.empty()) return reduce_parts(in, out, reduction, unequal);
    return ncclReduceScatter(in.data, out.data, unsigned_count(out.count), nccl_type(in.dtype),
                             nccl_reduction(reduction), group_.comm.get(), cuda_stream_.get());
  });
}

/// NCCL has no reduce-scatter of unequal parts: one reduction to each rank, all at once.
ncclResult_t NcclCommunicator::reduce_parts(Elements in, Elements out, Reduction reduction,
                                            Parts parts) {
  return in_one_nccl_group([&](auto note) {
    for_each_part(parts, [&](int root, Index begin, std::size_t count) {
      note(ncclReduce(static_cast<std::byte*>(in.data) + begin * size_bytes(in.dtype), out.data,
                      count, nccl_type(in.dtype), nccl_reduction(reduction), root,
                      group_.comm.get(), cuda_stream_.get()));
    });
  });
}

/// As reduce_parts: one broadcast from each rank.
ncclResult_t NcclCommunicator::gather_parts(Elements in, Elements out, Parts parts) {
  return in_one_nccl_group([&](auto note) {
    for_each_part(parts, [&](int root, Index begin, std::size_t count) {
      note(ncclBroadcast(in.data, static_cast<std::byte*>(out.data) + begin * size_bytes(out.dtype),
                         count, nccl_type(in.dtype), root, group_.comm.get(), cuda_stream_.get()));
    });
  });
}

Ticket NcclCommunicator::start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) {
  const Parts unequal = comm::arguments::check_all_gather(*this, in, out, parts);
  const Index count = unequal.counts.empty() ? in.count : out.count;
  const comm::CollectiveCall call{
      comm::Collective::all_gather, in.dtype, Reduction::sum, 0, count, {}, {},
      comm::cut_of(unequal)};
  return start(call, stream, [&] {
    if (!unequal.counts.empty()) return gather_parts(in, out, unequal);
    return ncclAllGather(in.data, out.data, unsigned_count(in.count), nccl_type(in.dtype),
                         group_.comm.get(), cuda_stream_.get());
  });
}

Ticket NcclCommunicator::start_broadcast(Elements x, int root, Stream& stream) {
  comm::arguments::check_root(*this, root);
  const comm::CollectiveCall call{
      comm::Collective::broadcast, x.dtype, Reduction::sum, root, x.count, {}, {}};
  return start(call, stream, [&] {
    return ncclBroadcast(x.data, x.data, unsigned_count(x.count), nccl_type(x.dtype), root,
                         group_.comm.get(), cuda_stream_.get());
  });
}

Ticket NcclCommunicator::start_exchange(std::span<const Message> sends,
                                        std::span<const Message> receives, Stream& stream) {
  comm::arguments::check_messages(*this, sends);
  comm::arguments::check_messages(*this, receives);
  // Empty messages are left out on both sides. A group without messages would be no operation.
  Operation what{nullptr, Kind::exchange, {}, 0, {}, {}};
  for (auto messages : {sends, receives})
    for (const Message& message : messages) what.messages += message.bytes > 0 ? 1 : 0;
  if (what.messages == 0) return {};
  wait_for_place();
  for (const Message& message : receives) show_start(message, false);
  for (const Message& message : sends) show_start(message, true);
  return start(what, stream, [&] {
    return in_one_nccl_group([&](auto note) {
      for (const Message& m : receives)
        if (m.bytes > 0)
          note(ncclRecv(m.data, unsigned_count(m.bytes), ncclUint8, m.peer, group_.comm.get(),
                        cuda_stream_.get()));
      for (const Message& m : sends)
        if (m.bytes > 0)
          note(ncclSend(m.data, unsigned_count(m.bytes), ncclUint8, m.peer, group_.comm.get(),
                        cuda_stream_.get()));
    });
  });
}

Ticket NcclCommunicator::start(const comm::CollectiveCall& call, Stream& stream,
                               FunctionRef<ncclResult_t()> issue) {
  require(call.count >= 0, name(), " group: ", comm::name(call.collective), " of ", call.count,
          " elements");
  wait_for_place();
  if (shown_.page().on()) at(started_ + 1).shown.push_back(shown_.begin(call));
  if (order_) watchdog_.guard([&] { order_->start(call, started_ + 1); });
  return start(Operation{nullptr, Kind::collective, call, 0, {}, {}}, stream, issue);
}

void NcclCommunicator::wait_for_place() {
  watchdog_.poll_groups();
  wait_on_host(started_ + 1 - most_under_way);
}

/// Empty messages are no operations.
void NcclCommunicator::show_start(const Message& message, bool is_send) {
  if (shown_.page().on() && message.bytes > 0)
    at(started_ + 1).shown.push_back(shown_.begin(message, is_send));
}

/// Of those up to `sequence` that were not known to have ended.
void NcclCommunicator::show_end(Index sequence) {
  if (!shown_.page().on()) return;
  for (Index each = ended_ + 1; each <= sequence; ++each) {
    for (const observe::Operation& operation : at(each).shown) shown_.page().end(operation);
    at(each).shown.clear();
  }
}

Ticket NcclCommunicator::start(const Operation& what, Stream& stream,
                               FunctionRef<ncclResult_t()> issue) {
  if (serialize_) stream.synchronize();
  check(cudaEventRecord(ready_.get(), cuda_stream_of(stream)), "cudaEventRecord");
  check(cudaStreamWaitEvent(cuda_stream_.get(), ready_.get(), 0), "cudaStreamWaitEvent");
  const Index sequence = started_ + 1;
  Operation& operation = at(sequence);
  operation.kind = what.kind;
  operation.call = what.call;
  operation.messages = what.messages;
  operation.started = Watchdog::Clock::now();
  watchdog_.guard([&] {
    wait_until_done(group_.comm.get(), issue(), [&] { return describe(sequence); },
                    {watchdog_.timeout_s(), [&] {
                       watchdog_.heartbeat();
                       watchdog_.poll_groups();
                     }});
    check(cudaEventRecord(operation.end.get(), cuda_stream_.get()), "cudaEventRecord");
  });
  started_ = sequence;
  if (serialize_ && what.kind == Kind::collective) wait_on_host(sequence);
  return {static_cast<std::uint64_t>(sequence)};
}

bool NcclCommunicator::done(Ticket ticket) {
  const auto sequence = static_cast<Index>(ticket.sequence);
  watchdog_.poll_groups();
  return has_ended(sequence);
}

void NcclCommunicator::wait(Ticket ticket, Stream& stream) {
  const auto sequence = static_cast<Index>(ticket.sequence);
  watchdog_.poll_groups();
  if (sequence <= ended_) return;
  if (serialize_) return wait_on_host(sequence);
  check(cudaStreamWaitEvent(cuda_stream_of(stream), at(sequence).end.get(), 0),
        "cudaStreamWaitEvent");
}

void NcclCommunicator::barrier() { group_.host->barrier(); }

NcclCommunicator::Operation& NcclCommunicator::at(Index sequence) {
  const Index kept = std::max(sequence, started_ - ring + 1);
  return operations_[static_cast<std::size_t>(kept % ring)];
}

bool NcclCommunicator::has_ended(Index sequence) {
  if (sequence <= ended_) return true;
  if (!reached(at(sequence).end)) return false;
  show_end(sequence);
  ended_ = sequence;
  last_end_ = Watchdog::Clock::now();
  return true;
}

void NcclCommunicator::wait_on_host(Index sequence) {
  if (has_ended(sequence)) return;
  shown_.page().wait_for(at(sequence).shown);
  trireme::poll([&] {
    if (has_ended(sequence)) return true;
    watchdog_.heartbeat();
    watchdog_.poll_groups();
    return false;
  });
  shown_.page().stop_waiting();
}

bool NcclCommunicator::in_flight() {
  while (ended_ < started_ && has_ended(ended_ + 1)) {
  }
  return ended_ < started_;
}

void NcclCommunicator::wait_for_all() { wait_on_host(started_); }

void NcclCommunicator::poll(Watchdog::Clock::time_point now) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(group_.comm.get(), &state), "ncclCommGetAsyncError");
  if (order_) order_->poll();
  const bool busy = in_flight();
  if (state != ncclSuccess && state != ncclInProgress)
    throw Error(str(
        name(), " group: NCCL has failed",
        started_ == 0 ? std::string() : " in or after " + describe(std::min(ended_ + 1, started_)),
        ": ", ncclGetErrorString(state), " (", ncclGetLastError(group_.comm.get()), ")"));
  if (!busy) return;
  const auto since = std::max(last_end_, at(ended_ + 1).started);
  if (now - since > std::chrono::duration<double>(watchdog_.timeout_s()))
    throw Error(str(name(), " group: ", describe(ended_ + 1), " has not ended after ",
                    watchdog_.timeout_s(), " s: has another rank failed, or not started it?"));
}

std::string NcclCommunicator::describe(Index sequence) {
  const Operation& operation = at(sequence);
  const std::string what = operation.kind == Kind::exchange
                               ? str("exchange of ", operation.messages, " messages")
                               : comm::describe(operation.call);
  return str(what, " (operation ", sequence, " of rank ", rank(), " (world rank ",
             group_.world_ranks[static_cast<std::size_t>(rank())], "))");
}

Watchdog::Watchdog(Mesh& host, Device& gpu, double timeout_s)
    : host_(nullptr),
      page_(comm::page_of(host, no_page_)),
      rank_(host.rank()),
      gpu_(gpu),
      timeout_s_(timeout_s) {
  if (auto* mesh = dynamic_cast<comm::TransportMesh*>(&host)) host_ = &mesh->progress();
  if (host_ != nullptr) host_->add(this);
  gpu_.while_waiting([this] {
    if (std::this_thread::get_id() != thread_) return;  // the thread that saves a checkpoint
    require(std::uncaught_exceptions() == 0 || !in_flight(),
            "an error is being reported, so the host must not wait for work that may never end");
    heartbeat();
    poll_groups();
  });
}

Watchdog::~Watchdog() {
  gpu_.while_waiting({});
  if (!abandoned_.empty()) notify();
  // As one NCCL group: freeing memory of the first group waits for the kernels of all.
  ncclGroupStart();
  for (AbandonedGroup& group : abandoned_) group.comm.abort();
  ncclGroupEnd();
  abandoned_.clear();
  if (host_ != nullptr) host_->remove(this);
}

bool Watchdog::in_flight() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](NcclCommunicator* group) { return group->in_flight(); });
}

bool Watchdog::poll() {
  poll_groups();
  return false;
}

void Watchdog::poll_groups() {
  if (polling_) return;  // polling a host group calls poll() of this object again
  require(failure_.empty(), failure_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + poll_interval;
  polling_ = true;
  guard([&] {
    for (NcclCommunicator* group : groups_) group->poll(now);
  });
  polling_ = false;
}

void Watchdog::fail(const std::string& why) {
  if (failed()) return;
  failure_ = why;
  polling_ = false;
  notify();
}

void Watchdog::abandon(AbandonedGroup group) {
  if (!failed()) failure_ = str("an error on rank ", rank_);
  abandoned_.push_back(std::move(group));
}

void Watchdog::notify() {
  if (host_ == nullptr) return;
  try {
    host_->poll();  // calls poll() of this object, whose error fails every group of the host
  } catch (const std::exception&) {
    return;  // it is being reported already
  }
}

}  // namespace trireme::nccl
