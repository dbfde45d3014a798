#include "runtime/comm/nccl/nccl_mesh.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "trireme/comm/agree.h"

#include "runtime/comm/nccl.h"
#include "runtime/comm/self.h"

namespace trireme::nccl {
namespace {

/// OneRank: a group of one GPU. Operations are copies on the caller's stream, or nothing; an event
/// orders the stream that waits behind the one that started, as it would with more ranks.
class OneRank final : public Communicator {
 public:
  OneRank(std::string name, Device& gpu);
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return self_.name(); }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override;
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override;
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override;
  Ticket start_broadcast(Elements x, int root, Stream& stream) override;
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override;
  void progress() override {}
  bool done(Ticket ticket) override;
  void wait(Ticket ticket, Stream& stream) override;
  void barrier() override {}

 private:
  static constexpr std::uint64_t ring = 64;
  struct Operation {
    std::unique_ptr<Event> end;
    const Stream* stream = nullptr;
  };
  Ticket end_on(Stream& stream);
  /// The operation of `ticket`, or the one that has replaced it in the ring. Later work on the same
  /// stream ends later.
  const Operation& operation(Ticket ticket) const { return operations_[ticket.sequence % ring]; }

  comm::SelfCommunicator self_;
  std::array<Operation, ring> operations_;
  std::uint64_t started_ = 0;
};

OneRank::OneRank(std::string name, Device& gpu) : self_(std::move(name)) {
  for (Operation& operation : operations_) operation.end = gpu.make_event();
}

Ticket OneRank::end_on(Stream& stream) {
  Operation& operation = operations_[++started_ % ring];
  // A wait for the earlier operation in this slot will wait for the new end, so the new end must
  // come after the old one.
  if (operation.stream != nullptr && operation.stream != &stream) operation.end->make_wait(stream);
  operation.stream = &stream;
  operation.end->record(stream);
  return {started_};
}

Ticket OneRank::start_all_reduce(Elements x, Reduction reduction, Stream& stream) {
  self_.start_all_reduce(x, reduction, stream);
  return end_on(stream);
}

Ticket OneRank::start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                                     Parts parts) {
  self_.start_reduce_scatter(in, out, reduction, stream, parts);
  return end_on(stream);
}

Ticket OneRank::start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) {
  self_.start_all_gather(in, out, stream, parts);
  return end_on(stream);
}

Ticket OneRank::start_broadcast(Elements x, int root, Stream& stream) {
  self_.start_broadcast(x, root, stream);
  return end_on(stream);
}

Ticket OneRank::start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                               Stream& stream) {
  self_.start_exchange(sends, receives, stream);
  return end_on(stream);
}

bool OneRank::done(Ticket ticket) {
  return ticket.sequence == 0 || operation(ticket).end->reached();
}

void OneRank::wait(Ticket ticket, Stream& stream) {
  if (ticket.sequence == 0 || operation(ticket).stream == &stream) return;
  operation(ticket).end->make_wait(stream);
}

/// "2.28.9"
std::string version() {
  int code = 0;
  check(ncclGetVersion(&code), "ncclGetVersion");
  return str(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

/// Groups share nothing: with splitShare NCCL runs the operations of all groups that were split off
/// one another in the order of their start, one at a time, on one stream of its own.
ncclConfig_t make_config(int most_blocks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;
  config.maxCTAs = most_blocks;
  return config;
}

// Thread blocks of a collective, one a multiprocessor. Kernels of different groups are on the GPU
// at the same time, and each waits there for those of other ranks: if they did not all fit, ranks
// could wait for each other without end. The gradients' group and the world have what NCCL chooses.
constexpr int as_nccl_likes = NCCL_CONFIG_UNDEF_INT;
constexpr int blocks_in_layers = 16;  // of tensor and pipeline groups, beside their own kernels
constexpr int blocks_of_others = 8;   // of groups that are split off: tied parameters

int most_blocks_of(Axis axis) { return axis == Axis::data ? as_nccl_likes : blocks_in_layers; }

/// NCCL_MAX_CTAS replaces the limit of a group (NCCL 2.28.9, envConfigOverride), but a limit lowers
/// NCCL_MIN_CTAS and NCCL_MAX_NCHANNELS. NCCL has put what its configuration files say into the
/// environment when the first communicator is there.
bool user_chooses_blocks() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  return is_set("NCCL_MIN_CTAS") || is_set("NCCL_MAX_CTAS") || is_set("NCCL_MIN_NCHANNELS") ||
         is_set("NCCL_MAX_NCHANNELS");
}

/// Is there a group of more than one rank?
bool any_group(std::vector<int> colors) {
  std::sort(colors.begin(), colors.end());
  const auto first = std::lower_bound(colors.begin(), colors.end(), 0);  // without a color: in none
  return std::adjacent_find(first, colors.end()) != colors.end();
}

}  // namespace

NcclMesh::NcclMesh(Mesh& host, Device& gpu, const NcclOptions& options)
    : host_(host),
      gpu_(gpu),
      options_(options),
      none_(gpu),
      description_(str("memory of the GPU, NCCL ", version(),
                       options.serialize ? ", apart from compute" : "")),
      watchdog_(host, gpu, options.timeout_s) {
  const int ranks = shape().size();
  if (ranks == 1) {
    world_ = std::make_unique<OneRank>("world", gpu_);
  } else {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    auto world = std::make_unique<NcclCommunicator>(
        NcclCommunicator::Group{"world", rank(), std::move(all), connect(),
                                host_.split(0, "world")},
        watchdog_, gpu_, options_);
    everyone_ = world.get();
    world_ = std::move(world);
  }
  // With limits that differ between ranks they would have different channels, and hang.
  const std::vector<int> chosen = gather(user_chooses_blocks() ? 1 : 0);
  limits_blocks_ = std::count(chosen.begin(), chosen.end(), 1) == 0;
  for (const auto& [axis, size] : shape().axes())
    axes_.push_back(split(shape().group(rank(), axis)[0], name(axis), most_blocks_of(axis)));
}

NcclMesh::~NcclMesh() {
  end_groups();
  axes_.clear();
  world_.reset();
}

NcclHandle NcclMesh::connect() {
  ncclUniqueId id{};
  agree({host_, none_}, [&] {
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  });
  host_.world().broadcast({&id, Index{sizeof id}, DType::u8}, 0, none_);
  ncclConfig_t config = make_config(as_nccl_likes);
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, shape().size(), id, rank(), &config);
  NcclHandle handle(comm);
  wait_until_done(comm, result, [&] { return str("the NCCL group of ", shape().size(), " ranks"); },
                  {options_.timeout_s, [&] {
                     watchdog_.heartbeat();
                     host_.world().progress();
                   }});
  return handle;
}

std::vector<int> NcclMesh::gather(int value) {
  std::vector<int> values(static_cast<std::size_t>(shape().size()), value);
  if (shape().size() > 1)
    host_.world().all_gather({&value, 1, DType::i32}, {values.data(), shape().size(), DType::i32},
                             none_);
  return values;
}

NcclHandle NcclMesh::split_off(int color, const std::string& name, int most_blocks) {
  everyone_->wait_for_all();  // NCCL splits a communicator only when nothing is under way in it
  // Whole when the parent is ready again, and null until then; null for ranks without a color, too.
  ncclComm_t comm = nullptr;
  ncclConfig_t config = make_config(limits_blocks_ ? most_blocks : as_nccl_likes);
  watchdog_.guard([&] {  // NCCL's thread writes to `comm` until the parent is aborted
    const ncclResult_t result = ncclCommSplit(everyone_->handle(), color, rank(), &comm, &config);
    wait_until_done(everyone_->handle(), result, [&] { return str("the NCCL group '", name, "'"); },
                    {options_.timeout_s, [&] {
                       watchdog_.heartbeat();
                       watchdog_.poll_groups();
                     }});
  });
  return NcclHandle(comm);
}

std::unique_ptr<Communicator> NcclMesh::split(int color, const std::string& name) {
  return split(color, name, blocks_of_others);
}

std::unique_ptr<Communicator> NcclMesh::split(int color, const std::string& name, int most_blocks) {
  const std::vector<int> colors = gather(color);
  std::vector<int> members;
  for (int r = 0; r < shape().size(); ++r)
    if (color >= 0 && colors[static_cast<std::size_t>(r)] == color) members.push_back(r);
  const bool alone = members.size() <= 1;
  std::unique_ptr<Communicator> host = host_.split(color, name);
  NcclHandle handle;
  if (everyone_ != nullptr && any_group(colors))
    handle = split_off(alone ? NCCL_SPLIT_NOCOLOR : color, name, most_blocks);
  if (color < 0) return nullptr;
  if (alone) return std::make_unique<OneRank>(name, gpu_);
  const auto me = std::find(members.begin(), members.end(), rank());
  const int rank_in_group = static_cast<int>(me - members.begin());
  return std::make_unique<NcclCommunicator>(
      NcclCommunicator::Group{name, rank_in_group, std::move(members), std::move(handle),
                              std::move(host)},
      watchdog_, gpu_, options_);
}

// Pending GPU work ends with the process; an orderly shutdown could block forever.
void NcclMesh::abort(int code) {
  host_.abort(code);
  std::_Exit(code);
}

}  // namespace trireme::nccl

extern "C" trireme::Mesh* trireme_nccl_open(trireme::Mesh* host, trireme::Device* gpu,
                                            const trireme::NcclOptions* options, char* text,
                                            int text_bytes) {
  try {
    return new trireme::nccl::NcclMesh(*host, *gpu, *options);
  } catch (const std::exception& error) {
    std::snprintf(text, static_cast<std::size_t>(text_bytes), "%s", error.what());
    return nullptr;
  }
}
