#include "runtime/checkpoint/tiers/local_copies.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/checkpoint/tiers/tier.h"
#include "runtime/comm/page_of.h"
#include "runtime/core/process/private_directory.h"
#include "runtime/store/file.h"

namespace trireme::checkpoint {

using store::SlotHeader;
using store::Slots;

namespace {

Index interval_of(const CheckpointOptions& options) {
  constexpr Index default_snapshots = 10;
  return options.save_local_interval > 0 ? options.save_local_interval
                                         : default_snapshots * options.save_memory_interval;
}

double seconds_of(clockid_t clock) {
  struct timespec now {};
  require(::clock_gettime(clock, &now) == 0, "the system has no such clock");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

/// Between the pieces of a copy, on the thread that writes it.
class LocalCopies::Rests {
 public:
  explicit Rests(const std::atomic<Haste>& haste) : haste_(haste) {}

  /// Throws: Error where the copy is to be given up.
  void rest() {
    const double now = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double until = pieces_ == 0 ? now : now + DiskPace::rest_s(now - began_, cpu - cpu_);
    while (haste_ == Haste::none && seconds_of(CLOCK_MONOTONIC) < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    require(haste_ != Haste::give_up, "the job ends");
    began_ = seconds_of(CLOCK_MONOTONIC);
    cpu_ = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    ++pieces_;
  }

 private:
  const std::atomic<Haste>& haste_;
  double began_ = 0, cpu_ = 0;  // of the piece before
  Index pieces_ = 0;
};

LocalCopies::LocalCopies(const Context& context, const std::string& key, const Slots& mine,
                         const std::string& node)
    : context_(context), page_(comm::page_of(context.host().mesh, no_page_)), slots_("", 0, 0) {
  const std::string& disk = context.options().checkpoint.save_local;
  try {
    std::error_code unknown;
    require(std::filesystem::is_directory(disk, unknown), "there is no such directory");
    const std::string directory = store::local_snapshot_directory(disk, key);
    make_private_directory(directory);
    slots_ = Slots(directory + "/" + node, context.host().rank(), mine.bytes());
    make_directory(slots_.directory());
    require(::access(slots_.directory().c_str(), W_OK | X_OK) == 0, slots_.directory(),
            " cannot be written to");
  } catch (const Error& error) {
    problem_ = str("on ", node, ": ", error.what());
  }
}

LocalCopies::~LocalCopies() { haste_ = Haste::give_up; }

void LocalCopies::open(const std::optional<SnapshotStep>& kept, Index start) {
  const int slot = kept ? found_.find(*kept) : -1;
  last_ = start;
  newest_ = slot < 0 ? -1 : kept->step;
  target_ = slot < 0 ? 0 : 1 - slot;
  if (newest_ >= 0) page_.set_local_step(newest_);
  if (!problem_.empty()) return;
  try {
    for (int each = 0; each < Slots::count; ++each)
      if (each != slot) slots_.begin(each);
    if (slot >= 0 && !found_[slot]->complete) slots_.confirm(slot);
  } catch (const Error& error) {
    warn(error.what());
  }
}

bool LocalCopies::due(Index step) const {
  const Index interval = interval_of(context_.options().checkpoint);
  return makes_ && is_idle() && step / interval > last_ / interval;
}

void LocalCopies::start(const Slots& memory, int slot, const SlotHeader& header) {
  last_ = header.step;
  source_ = slot;
  header_ = header;
  enter(Phase::busy, [&] {
    worker_.start([this, from = memory.memory(slot)] {
      Rests rests(haste_);
      slots_.write(target_, from, header_, [&] { rests.rest(); });
    });
  });
}

void LocalCopies::poll() {
  if (!is_busy() || !worker_.finished()) return;
  enter(Phase::done, [&] {
    worker_.wait();
    warned_ = false;
  });
}

void LocalCopies::end(bool give_up) {
  haste_ = give_up ? Haste::give_up : Haste::finish;
  warned_ = warned_ || give_up;  // what is given up is no failure
  if (!is_busy()) return;
  const StorageWait shown(page_);  // a slow disk is no hang of this rank
  while (is_busy()) {
    page_.heartbeat();
    poll();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void LocalCopies::complete() {
  ignore_failure([&] { slots_.confirm(target_); });
  newest_ = header_.step;
  target_ = 1 - target_;
  page_.set_local_step(newest_);
}

std::string LocalCopies::describe() const {
  return "--save-local " + context_.options().checkpoint.save_local;
}

std::vector<std::string> LocalCopies::find(const store::TimeLine&,
                                           const std::function<bool(const SlotHeader&)>& is_mine) {
  return found_.look(slots_, is_mine, place());
}

void LocalCopies::note(const std::vector<std::vector<std::string>>& found, PiecePlaces& places) {
  FoundSlots::note(found, place(), places);
}

std::string LocalCopies::fetch(const SnapshotStep& step, const std::vector<int>& ranks,
                               const Slots& memory, int slot, LostPieces& lost) {
  const int me = context_.host().rank();
  std::string header;
  if (std::find(ranks.begin(), ranks.end(), me) == ranks.end()) return header;
  lost.collect(me, [&] {
    const int from = found_.find(step);
    slots_.read(from, memory.memory(slot), [this] { page_.progressed(); });
    header = to_text(*found_[from]);
  });
  return header;
}

void LocalCopies::warn(const std::string& why) {
  if (!std::exchange(warned_, true))
    context_.log().warning(
        fmt::format("--save-local {}: {}; training continues, without a copy of its snapshots "
                    "there until all ranks can write theirs",
                    context_.options().checkpoint.save_local, why));
}

}  // namespace trireme::checkpoint
