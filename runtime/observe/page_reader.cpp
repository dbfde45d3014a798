// Every index that a page holds is checked before it is used: the page may be damaged.
#include "runtime/observe/page_reader.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "trireme/core/error.h"

#include "runtime/observe/status_page.h"

namespace trireme::observe {
namespace {

constexpr auto acquire = std::memory_order_acquire;

template <std::size_t size>
std::string text_of(const std::array<char, size>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

Phase phase_of(const PageLayout& page) {
  return static_cast<Phase>(std::min<std::uint64_t>(page.phase.load(acquire), phase_count - 1));
}

std::string name_at(const PageLayout& page, std::uint32_t offset) {
  const std::size_t used = std::min<std::size_t>(page.names_used.load(acquire), page.names.size());
  if (offset == 0 || offset >= used) return "";
  const std::size_t length = static_cast<unsigned char>(page.names[offset]);
  return {page.names.data() + offset + 1, std::min(length, used - offset - 1)};
}

std::vector<RankRun> runs_of(const PageLayout& page, const GroupWords& group) {
  const std::size_t end = std::min<std::size_t>(group.runs_end, PageLayout::most_runs);
  std::vector<RankRun> runs;
  for (std::size_t i = group.runs_begin; i < end; ++i)
    if (page.runs[i].is_within(page.header.ranks)) runs.push_back(page.runs[i]);
  return runs;
}

std::vector<GroupState> groups_of(const PageLayout& page) {
  const std::size_t count =
      std::min<std::size_t>(page.group_count.load(acquire), PageLayout::most_groups);
  std::vector<GroupState> groups;
  for (std::size_t i = 0; i < count; ++i) {
    const GroupWords& group = page.groups[i];
    groups.push_back({name_at(page, group.name), group.channel != 0, runs_of(page, group),
                      group.begun.load(acquire), group.done.load(acquire)});
  }
  return groups;
}

int group_index(const PageState& state, std::uint64_t index) {
  return index < state.groups.size() ? static_cast<int>(index) : -1;
}

void read_place(const PageLayout& page, PageState& state) {
  PlaceWords place;
  if (!page.place.read(place)) state.torn.emplace_back("place");  // each word is one of two places
  state.step = place.step;
  state.micro_batch = place.micro_batch;
  state.op_index = place.op_index;
  state.action = name_at(page, place.action);
  state.op = name_at(page, place.op);
}

void read_wait(const PageLayout& page, PageState& state) {
  WaitWords wait;
  if (!page.wait.read(wait)) return state.torn.emplace_back("wait"), void();
  if (wait.reason > static_cast<std::uint32_t>(WaitsFor::storage)) return;
  state.waits_for = static_cast<WaitsFor>(wait.reason);
  state.waits_since_ns = wait.since_ns;
  for (std::size_t i = 0; i < std::min<std::size_t>(wait.count, WaitWords::most); ++i)
    if (const int group = group_index(state, wait.awaited[i].group); group >= 0)
      state.awaited.push_back({group, wait.awaited[i].sequence});
}

/// The last entries of a ring of which `written` were written, oldest first.
template <class Words, std::size_t size, class Take>
void read_ring(const std::array<SequenceLocked<Words>, size>& ring, std::uint64_t written,
               const char* what, PageState& state, Take take) {
  for (std::uint64_t i = written - std::min<std::uint64_t>(written, size); i < written; ++i) {
    Words words;
    if (ring[i % size].read(words))
      take(words);
    else
      state.torn.emplace_back(what);
  }
}

void read_operations(const PageLayout& page, PageState& state) {
  const auto take = [&](const OperationWords& words) {
    const int group = group_index(state, words.group);
    if (group < 0 || words.kind >= operation_kind_count ||
        words.dtype > static_cast<std::uint16_t>(DType::u8))
      return;
    state.operations.push_back({group, words.sequence, static_cast<OperationKind>(words.kind),
                                static_cast<DType>(words.dtype), words.count,
                                static_cast<int>(words.peer), words.begun_ns, words.done_ns});
  };
  read_ring(page.operation_ring, page.operations_begun.load(acquire), "operation", state, take);
  // A record may be overwritten by a newer one while the ring is read.
  std::stable_sort(state.operations.begin(), state.operations.end(),
                   [](const auto& a, const auto& b) { return a.begun_ns < b.begun_ns; });
}

/// A rank that polls although it waits for no other waits for its GPU, whose operations the host
/// has begun for it: it awaits the oldest of each group that has not ended.
void find_awaited_of_gpu(PageState& state) {
  if (state.waits_for != WaitsFor::nothing || state.heartbeat_ns <= state.moved_ns) return;
  for (std::size_t i = 0; i < state.groups.size(); ++i)
    if (state.groups[i].done < state.groups[i].begun)
      state.awaited.push_back({static_cast<int>(i), state.groups[i].done + 1});
  if (state.awaited.empty()) return;
  state.waits_for = WaitsFor::operations;
  state.waits_since_ns = state.moved_ns;
}

void read_stack(const PageLayout& page, PageState& state) {
  StackWords stack;
  state.stacks_captured = page.stack.sequence() / 2;
  if (!page.stack.read(stack)) return state.torn.emplace_back("stack"), void();
  const std::size_t count = std::min<std::size_t>(stack.count, StackWords::most);
  state.stack.assign(stack.frames.begin(),
                     stack.frames.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

PageReader::PageReader(const std::string& path) : mapping_(PageMapping::open(path, page_bytes)) {
  const PageHeader& header = page().header;
  require(header.magic == page_magic, path, ": no status page: it begins with other bytes");
  require(header.version == page_version, path, ": a status page of version ", header.version,
          "; this program reads version ", page_version);
  require(header.bytes == sizeof(PageLayout), path, ": a status page of ", header.bytes,
          " bytes, must be ", sizeof(PageLayout));
  require(header.ranks > 0 && header.rank >= 0 && header.rank < header.ranks, path, ": rank ",
          header.rank, " of ", header.ranks, " ranks");
}

PageState PageReader::read() const {
  const PageLayout& from = page();
  PageState state;
  state.rank = from.header.rank;
  state.ranks = from.header.ranks;
  state.pid = from.header.pid;
  state.started_ticks = from.header.started_ticks;
  state.host = text_of(from.header.host);
  state.phase = phase_of(from);
  state.phase_ns = from.phase_ns.load(acquire);
  state.ops = from.ops.load(acquire);
  state.groups = groups_of(from);
  read_place(from, state);
  read_wait(from, state);
  state.moved_ns = from.moved_ns.load(acquire);
  state.heartbeat_ns = from.heartbeat_ns.load(acquire);
  state.longest_gap_ns = from.longest_gap_ns.load(acquire);
  find_awaited_of_gpu(state);
  state.micro_batches = from.micro_batches.load(acquire);
  state.sharing = from.sharing.load(acquire);
  state.durable_step = from.durable_step.load(acquire);
  state.memory_step = from.memory_step.load(acquire);
  state.local_step = from.local_step.load(acquire);
  state.loss = std::bit_cast<double>(from.loss_bits.load(acquire));
  for (auto [text, record, what] : {std::tuple{&state.error, &from.error, "error"},
                                    {&state.coordinates, &from.coordinates, "coordinates"}}) {
    TextWords words;
    if (record->read(words))
      *text = text_of(words.text);
    else
      state.torn.emplace_back(what);
  }
  read_ring(from.step_ring, from.steps_done.load(acquire), "step time", state,
            [&](const StepWords& words) {
              state.steps.push_back({words.step, words.compute_ns});
            });
  read_operations(from, state);
  read_stack(from, state);
  state.read_ns = now_ns();  // last, so that no age is negative
  return state;
}

// The gaps of a part of a step say nothing about the rest of it. Shorter ones than a tick of the
// coarse clock were not seen.
RankProgress PageReader::progress() const {
  const PageLayout& from = page();
  RankProgress progress;
  progress.ops = from.ops.load(acquire);
  progress.phase = phase_of(from);
  constexpr double least_s = 0.004;
  if (from.steps_done.load(acquire) >= 2)
    progress.longest_gap_s =
        std::max(least_s, static_cast<double>(from.longest_gap_ns.load(acquire)) / 1e9);
  return progress;
}

std::vector<std::string> find_pages(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_page =
        name.starts_with("rank-") && name.find_first_not_of("0123456789", 5) == std::string::npos;
    if (is_page) found.push_back(entry->path().string());
  }
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return std::tuple(a.size(), a) < std::tuple(b.size(), b);  // beyond 99999 a name is longer
  });
  return found;
}

}  // namespace trireme::observe
