// How emulated communicators are made, split, and ended. All of it takes several calls of
// ncclCommGetAsyncError, and a call that comes before is refused, as by a non-blocking communicator
// of NCCL.
#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/nccl_state.h"
#include "tests/cuda_emulation/settings.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {
namespace {

constexpr int polls = 3;
constexpr std::size_t connection_bytes = 4 << 20;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Communicators that this process has named.
int next_number() {
  static int number = 0;
  return number++;
}

bool mpi_runs() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

bool busy(ncclComm_t comm) { return comm->pending != nullptr; }

/// Communicators that are to be freed.
std::vector<ncclComm_t>& aborted() {
  static std::vector<ncclComm_t> all;
  return all;
}

/// Who has made the id, and its how-manyth it is.
struct Id {
  int maker, number;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

/// The maker of the id gets a message of every member, and sends all of them the list of members.
class Meeting {
 public:
  Meeting(std::shared_ptr<Members> members, int size, Id id)
      : members_(std::move(members)), size_(static_cast<std::size_t>(size)), maker_(id.maker) {
    members_->tags = Tags(id.maker, id.number);
    const int mine[2] = {members_->rank, world_rank()};
    cards_.send(mine, sizeof mine, maker_, tag(), Requests::Send::buffered);
    if (world_rank() == maker_)
      for (std::size_t m = 0; m < size_; ++m)
        arrived_.push_back(cards_.receive(sizeof mine, MPI_ANY_SOURCE, tag()));
  }
  bool step() {
    if (!cards_.all_done()) return false;
    if (list_ == nullptr) {
      if (world_rank() == maker_) tell_all();
      list_ = lists_.receive(size_ * sizeof(int), maker_, roll());
    }
    if (!lists_.all_done()) return false;
    members_->world_ranks.resize(size_);
    std::memcpy(members_->world_ranks.data(), list_, size_ * sizeof(int));
    return true;
  }

 private:
  int tag() const { return members_->tags.of(Purpose::set_up); }
  int roll() const { return members_->tags.of(Purpose::roll); }
  void tell_all() {
    std::vector<int> world_ranks(size_);
    for (const std::byte* card : arrived_) {
      int who[2];
      std::memcpy(who, card, sizeof who);
      world_ranks.at(static_cast<std::size_t>(who[0])) = who[1];
    }
    for (const int to : world_ranks)
      lists_.send(world_ranks.data(), size_ * sizeof(int), to, roll(), Requests::Send::buffered);
  }

  std::shared_ptr<Members> members_;
  std::size_t size_;
  int maker_;
  Requests cards_, lists_;
  std::vector<const std::byte*> arrived_;
  const std::byte* list_ = nullptr;
};

/// Every rank sends every other its color and key, and the number that the new communicator has if
/// it comes first in it.
class Split {
 public:
  Split(ncclComm_t parent, int color, int key, ncclComm_t* result, const ncclConfig_t& config)
      : parent_(parent->members),
        shares_(parent->config.splitShare == 1),
        config_(config),
        result_(result) {
    const Card mine{color, key, parent_->rank, color == NCCL_SPLIT_NOCOLOR ? 0 : next_number()};
    for (int r = 0; r < parent_->size(); ++r) {
      const int to = parent_->world_ranks[static_cast<std::size_t>(r)];
      const int tag = parent_->tags.of(Purpose::set_up);
      cards_.send(&mine, sizeof mine, to, tag, Requests::Send::buffered);
      arrived_.push_back(cards_.receive(sizeof mine, to, tag));
    }
    mine_ = mine;
  }
  bool step() {
    if (!cards_.all_done()) return false;
    if (mine_.color == NCCL_SPLIT_NOCOLOR) return true;
    std::vector<Card> members;
    for (const std::byte* data : arrived_) {
      Card card;
      std::memcpy(&card, data, sizeof card);
      if (card.color == mine_.color) members.push_back(card);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Card& a, const Card& b) { return a.key < b.key; });
    *result_ = new ncclComm;
    Members& child = *(*result_)->members;
    for (const Card& card : members) {
      if (card.rank == parent_->rank) child.rank = child.size();
      child.world_ranks.push_back(parent_->world_ranks[static_cast<std::size_t>(card.rank)]);
    }
    child.tags = Tags(child.world_ranks[0], members[0].number);
    (*result_)->config = config_;
    if (shares_) child.resources = parent_->resources;
    return true;
  }

 private:
  struct Card {
    int color, key, rank, number;
  };
  std::shared_ptr<Members> parent_;
  bool shares_;
  ncclConfig_t config_;
  ncclComm_t* result_;
  Card mine_{};
  Requests cards_;
  std::vector<const std::byte*> arrived_;
};

}  // namespace

std::string Members::who(int r) const {
  return "rank " + std::to_string(r) + " (world rank " +
         std::to_string(world_ranks[static_cast<std::size_t>(r)]) + ")";
}

bool Resources::connect(Connection connection) {
  bool& done = connected[static_cast<int>(connection)];
  if (!done) done = take_device_memory(connection_bytes);
  return done;
}
Resources::~Resources() {
  for (const bool done : connected)
    if (done) give_back_device_memory(connection_bytes);
}

void report(const std::string& text) { std::fprintf(stderr, "nccl emulation: %s\n", text.c_str()); }

void free_aborted() {
  if (aborted().empty()) return;
  Streams::instance().run_all();
  for (const ncclComm_t comm : aborted()) delete comm;
  aborted().clear();
}

ncclResult_t go_on_later(ncclComm_t comm, Pending pending) {
  comm->pending = std::move(pending);
  comm->polls_until_done = polls;
  return ncclInProgress;
}

}  // namespace trireme::emulation

using namespace trireme::emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return "emulated"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!mpi_runs()) return ncclSystemError;
  const Id made{world_rank(), next_number()};
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (size < 1 || rank < 0 || rank >= size || config->blocking != 0) return ncclInvalidArgument;
  if (!mpi_runs()) return ncclSystemError;
  Id made{};
  std::memcpy(&made, &id, sizeof made);
  *comm = new ncclComm;
  (*comm)->members->rank = rank;
  (*comm)->config = *config;
  auto meeting = std::make_shared<Meeting>((*comm)->members, size, made);
  return go_on_later(*comm, [meeting] { return meeting->step(); });
}

/// As in NCCL (2.28.9), *result is null until the parent has come to its end with it, and the call
/// says nothing of that.
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* result,
                           ncclConfig_t* config) {
  *result = nullptr;
  if (busy(parent) || config->blocking != 0) return ncclInvalidArgument;
  if (parent->members->resources->issued != parent->members->resources->ended) {
    report("a communicator is split while " + parent->members->who(parent->members->rank) +
           " has operations in it under way");
    return ncclInvalidUsage;
  }
  auto split = std::make_shared<Split>(parent, color, key, result, *config);
  go_on_later(parent, [split] { return split->step(); });
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  ++comm->looks;
  if (busy(comm) && (--comm->polls_until_done > 0 || !comm->pending())) {
    *state = ncclInProgress;
    return ncclSuccess;
  }
  comm->pending = nullptr;
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (busy(comm)) return ncclInvalidArgument;
  auto resources = comm->members->resources;
  return go_on_later(comm, [resources] {
    Streams::instance().poke();
    return resources->ended == resources->issued;
  });
}

/// Memory of the device is freed, which waits for all that the device has been given, by other
/// communicators too.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (busy(comm)) return ncclInvalidArgument;
  Streams::instance().run_all();
  delete comm;
  return ncclSuccess;
}

/// Inside a group all are asked to stop before any is freed; alone, freeing waits for what others
/// have under way.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  while (setting("EMULATION_ABORT", "returns") == "hangs") ::pause();
  comm->members->resources->aborted = true;
  aborted().push_back(comm);
  if (group_depth() == 0) free_aborted();
  return ncclSuccess;
}

}  // extern "C"
