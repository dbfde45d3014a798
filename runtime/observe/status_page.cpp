#include "runtime/observe/status_page.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <new>
#include <utility>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/private_directory.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/observe/process_state.h"

namespace trireme::observe {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;

std::int64_t read_clock(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);  // cannot fail for these clocks
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Cut to fit, with a zero at its end.
template <std::size_t size>
void copy_text(std::array<char, size>& to, std::string_view text) {
  to.fill(0);
  std::copy_n(text.begin(), std::min(text.size(), size - 1), to.begin());
}

TextWords words_of(std::string_view text) {
  TextWords words;
  copy_text(words.text, text);
  return words;
}

PageHeader header_of(int rank, int ranks) {
  PageHeader header{};
  header.magic = page_magic;
  header.version = page_version;
  header.bytes = sizeof(PageLayout);
  header.rank = rank;
  header.ranks = ranks;
  header.pid = ::getpid();
  const auto process = read_process_state(header.pid);
  header.started_ticks = process ? process->started_ticks : -1;
  copy_text(header.host, host_name());
  return header;
}

}  // namespace

std::int64_t now_ns() { return read_clock(CLOCK_MONOTONIC); }
std::int64_t coarse_now_ns() { return read_clock(CLOCK_MONOTONIC_COARSE); }

StatusPage::StatusPage(const std::string& directory, int rank, int ranks)
    : path_(page_path(directory, rank)) {
  make_private_directory(directory);
  mapping_ = PageMapping::create(path_, page_bytes, [&](void* data) {
    page_ = new (data) PageLayout();
    page_->header = header_of(rank, ranks);
    page_->names_used.store(1, relaxed);
    page_->sharing.store(-1, relaxed);
    page_->durable_step.store(-1, relaxed);
    page_->memory_step.store(-1, relaxed);
    page_->local_step.store(-1, relaxed);
    page_->place.write(place_);
    enter(Phase::start);
  });
}

// A model may have more names of ops than there is space for; those of groups must not be lost.
NameId StatusPage::add_name(std::string_view name) {
  return add_name(name, PageLayout::name_bytes - PageLayout::group_name_bytes);
}

NameId StatusPage::add_name(std::string_view name, std::size_t end) {
  constexpr std::size_t longest = UCHAR_MAX;
  name = name.substr(0, longest);
  if (!on() || name.empty()) return {};
  auto& names = page_->names;
  const std::size_t used = page_->names_used.load(relaxed);
  for (std::size_t at = 1; at < used;) {
    const std::size_t length = static_cast<unsigned char>(names[at]);
    if (std::string_view(&names[at + 1], length) == name) return {static_cast<std::uint32_t>(at)};
    at += 1 + length;
  }
  if (used + 1 + name.size() > end) return {};
  names[used] = static_cast<char>(name.size());
  std::copy(name.begin(), name.end(), &names[used + 1]);
  page_->names_used.store(used + 1 + name.size(), release);
  return {static_cast<std::uint32_t>(used)};
}

std::vector<RankRun> runs_of(std::span<const int> ranks) {
  std::vector<RankRun> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    RankRun run{ranks[i], 1, i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1};
    while (++i < ranks.size() && ranks[i] - ranks[i - 1] == run.stride) ++run.count;
    runs.push_back(run);
  }
  return runs;
}

GroupId StatusPage::add_group(std::string_view name, std::span<const int> world_ranks) {
  if (!on()) return {};
  return publish_group(name, false, runs_of(world_ranks));
}

GroupId StatusPage::add_channel(std::string_view name, int from, int to) {
  if (!on()) return {};
  const RankRun ends{from, 2, to - from};
  return publish_group(name, true, {&ends, 1});
}

GroupId StatusPage::find_group(NameId name, bool channel, std::span<const RankRun> runs) const {
  const std::size_t groups = page_->group_count.load(relaxed);
  for (std::size_t i = 0; i < groups; ++i) {
    const GroupWords& group = page_->groups[i];
    if (group.name == name.offset && group.channel == (channel ? 1 : 0) &&
        std::equal(runs.begin(), runs.end(), page_->runs.begin() + group.runs_begin,
                   page_->runs.begin() + group.runs_end))
      return {static_cast<std::uint32_t>(i)};
  }
  return {};
}

GroupId StatusPage::new_group(NameId name, bool channel, std::span<const RankRun> runs) {
  const std::size_t index = page_->group_count.load(relaxed);
  const std::size_t first_run = page_->run_count.load(relaxed);
  if (index == PageLayout::most_groups || first_run + runs.size() > PageLayout::most_runs)
    return {};
  std::copy(runs.begin(), runs.end(), &page_->runs[first_run]);
  page_->run_count.store(first_run + runs.size(), relaxed);
  GroupWords& group = page_->groups[index];
  group.name = name.offset;
  group.channel = channel ? 1 : 0;
  group.runs_begin = static_cast<std::uint32_t>(first_run);
  group.runs_end = static_cast<std::uint32_t>(first_run + runs.size());
  page_->group_count.store(index + 1, release);
  return {static_cast<std::uint32_t>(index)};
}

/// With a number where another group in use has the same name and members. Members make their
/// groups in the same order, so all choose the same number.
GroupId StatusPage::publish_group(std::string_view name, bool channel,
                                  std::span<const RankRun> runs) {
  for (int number = 1;; ++number) {
    const std::string numbered = std::string(name) + ' ' + std::to_string(number);
    const NameId id = add_name(number == 1 ? name : numbered, PageLayout::name_bytes);
    const GroupId same = find_group(id, channel, runs);
    if (id.offset == 0 || same.index == GroupId::none) return new_group(id, channel, runs);
    if (!std::exchange(retired_[same.index], false)) continue;
    return same;
  }
}

void StatusPage::retire(GroupId group) {
  if (!on() || group.index == GroupId::none) return;
  retired_[group.index] = true;
  GroupWords& words = page_->groups[group.index];
  words.done.store(words.begun.load(relaxed), release);  // of a failed one nothing more is awaited
}

void StatusPage::set_coordinates(std::string_view text) {
  if (on()) page_->coordinates.write(words_of(text));
}

void StatusPage::set_sharing(Index ranks) {
  if (on()) page_->sharing.store(ranks, relaxed);
}

void StatusPage::set_micro_batches(Index count) {
  if (on()) page_->micro_batches.store(count, relaxed);
}

void StatusPage::enter(Phase phase) {
  if (!on()) return;
  page_->phase_ns.store(coarse_now_ns(), relaxed);
  page_->phase.store(static_cast<std::uint64_t>(phase), release);
  progressed();
}

Phase StatusPage::phase() const {
  return on() ? static_cast<Phase>(page_->phase.load(relaxed)) : Phase::start;
}

void StatusPage::progressed() {
  if (!on()) return;
  page_->moved_ns.store(coarse_now_ns(), relaxed);
  page_->ops.fetch_add(1, release);
}

// The gaps of the first step are those of a start: caches are cold, and GPUs load their kernels.
// A wait is as long as other ranks make it, so only the time up to it counts.
void StatusPage::count_gap(std::int64_t now) {
  const std::int64_t gap = now - page_->moved_ns.load(relaxed);
  if (steps_begun_ == 2 && !waits_ && gap > page_->longest_gap_ns.load(relaxed))
    page_->longest_gap_ns.store(gap, relaxed);
}

void StatusPage::move() {
  const std::int64_t now = coarse_now_ns();
  count_gap(now);
  page_->moved_ns.store(now, relaxed);
  page_->ops.fetch_add(1, release);
}

void StatusPage::write_step(Index step) {
  place_ = {.step = step, .micro_batch = -1, .action = 0, .op_index = -1, .op = 0};
  page_->place.write(place_);
  move();
  steps_begun_ = std::min(steps_begun_ + 1, 2);
}

void StatusPage::write_micro_batch(int micro_batch, NameId action) {
  place_.micro_batch = micro_batch;
  place_.action = action.offset;
  place_.op_index = -1;
  place_.op = 0;
  page_->place.write(place_);
  move();
}

void StatusPage::write_op(int index, NameId op) {
  place_.op_index = index;
  place_.op = op.offset;
  page_->place.write(place_);
  move();
}

void StatusPage::end_step(Index step, std::int64_t compute_ns, double loss) {
  if (!on()) return;
  const std::uint64_t done = page_->steps_done.load(relaxed);
  page_->step_ring[done % PageLayout::steps].write({step, compute_ns});
  page_->steps_done.store(done + 1, release);
  page_->loss_bits.store(std::bit_cast<std::uint64_t>(loss), relaxed);
}

void StatusPage::set_durable_step(Index step) {
  if (on()) page_->durable_step.store(step, relaxed);
}

void StatusPage::set_memory_step(Index step) {
  if (on()) page_->memory_step.store(step, relaxed);
}

void StatusPage::set_local_step(Index step) {
  if (on()) page_->local_step.store(step, relaxed);
}

void StatusPage::fail(std::string_view message) {
  if (!on()) return;
  if (page_->phase.load(relaxed) == static_cast<std::uint64_t>(Phase::failed)) return;
  page_->error.write(words_of(message));
  enter(Phase::failed);
}

Operation StatusPage::write_begin(GroupId group, const OperationFacts& facts) {
  GroupWords& words = page_->groups[group.index];
  const std::uint64_t sequence = words.begun.load(relaxed) + 1;
  const std::uint64_t record = page_->operations_begun.load(relaxed) + 1;
  page_->operation_ring[(record - 1) % PageLayout::operations].write(
      {.sequence = sequence,
       .group = group.index,
       .kind = static_cast<std::uint16_t>(facts.kind),
       .dtype = static_cast<std::uint16_t>(facts.dtype),
       .count = facts.count,
       .peer = facts.peer,
       .begun_ns = now_ns(),
       .done_ns = 0});
  page_->operations_begun.store(record, release);
  words.begun.store(sequence, release);
  return {group, sequence, record};
}

void StatusPage::write_end(const Operation& operation) {
  GroupWords& group = page_->groups[operation.group.index];
  group.done.store(group.done.load(relaxed) + 1, release);
  const std::uint64_t begun = page_->operations_begun.load(relaxed);
  if (begun - operation.record >= PageLayout::operations) return;  // its record is overwritten
  auto& record = page_->operation_ring[(operation.record - 1) % PageLayout::operations];
  OperationWords words;
  if (!record.read(words)) return;  // this thread alone writes it, so it is whole
  words.done_ns = now_ns();
  record.write(words);
}

void StatusPage::wait_for(std::span<const Operation> operations) {
  if (!on()) return;
  WaitWords words{};
  words.since_ns = coarse_now_ns();
  words.reason = static_cast<std::uint32_t>(WaitsFor::operations);
  words.count = static_cast<std::uint32_t>(operations.size());
  for (std::size_t i = 0; i < std::min(operations.size(), WaitWords::most); ++i)
    words.awaited[i] = {operations[i].group.index, operations[i].sequence};
  write_wait(words);
}

void StatusPage::wait_for(WaitsFor reason) {
  if (!on()) return;
  WaitWords words{};
  words.since_ns = coarse_now_ns();
  words.reason = static_cast<std::uint32_t>(reason);
  write_wait(words);
}

void StatusPage::write_wait(const WaitWords& words) {
  count_gap(words.since_ns);
  waits_ = true;
  write_heartbeat();
  page_->wait.write(words);
}

void StatusPage::stop_waiting() {
  if (!on()) return;
  page_->wait.write({});
  waits_ = false;
  progressed();
}

void StatusPage::write_heartbeat() { page_->heartbeat_ns.store(coarse_now_ns(), relaxed); }

const char* name(Phase phase) {
  constexpr std::array<const char*, phase_count> names = {
      "start",   "sweep", "MPI start", "mesh",      "program", "plan",     "load",
      "warm-up", "step",  "evaluate",  "save wait", "finish",  "finished", "failed"};
  return names[static_cast<std::size_t>(phase)];
}

const char* name(OperationKind kind) {
  constexpr std::array<const char*, operation_kind_count> names = {
      "all-reduce", "reduce-scatter", "all-gather", "broadcast", "barrier", "send", "receive"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace trireme::observe
