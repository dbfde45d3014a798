// The bytes of a status page. Writers and readers of one version agree on them; a change of any
// struct here needs another page_version. Names are offsets into a table of texts in the page, and
// times are CLOCK_MONOTONIC of the machine, in ns; 0: never.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>

namespace trireme::observe {

/// A record in memory that processes share: one thread writes it, any process reads it, and neither
/// waits for the other. A reader notices a record that its writer has not finished, also when that
/// writer was killed inside the write.
/// Words are stored with release and loaded with acquire order, so no fence is needed: a reader
/// that sees a new word also sees that the sequence number has changed.
template <class T>
class SequenceLocked {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  using Words = std::array<std::uint64_t, sizeof(T) / 8>;

 public:
  void write(const T& value) {
    const Words words = std::bit_cast<Words>(value);
    const std::uint64_t before = sequence_.load(std::memory_order_relaxed);
    sequence_.store(before + 1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < words.size(); ++i)
      words_[i].store(words[i], std::memory_order_release);
    sequence_.store(before + 2, std::memory_order_release);
  }

  /// Returns false when the record stays unfinished: its writer has ended inside write(). `value`
  /// then holds a mixture of two records.
  bool read(T& value) const {
    constexpr int tries_at_once = 100, tries = 120;  // a writer without a core needs milliseconds
    for (int i = 0; i < tries; ++i) {
      if (i >= tries_at_once) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::uint64_t before = sequence_.load(std::memory_order_acquire);
      Words words;
      for (std::size_t word = 0; word < words.size(); ++word)
        words[word] = words_[word].load(std::memory_order_acquire);
      value = std::bit_cast<T>(words);
      if (before % 2 == 0 && sequence_.load(std::memory_order_relaxed) == before) return true;
    }
    return false;
  }

  /// For a copy of a record: the next write() is its first one.
  void reset() { sequence_.store(0, std::memory_order_relaxed); }
  /// For the copy of a record whose writer has ended inside write().
  void write_unfinished(const T& value) {
    write(value);
    sequence_.store(1, std::memory_order_release);
  }

  /// Changes with every write.
  std::uint64_t sequence() const { return sequence_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> sequence_{0};
  std::array<std::atomic<std::uint64_t>, sizeof(T) / 8> words_{};
};

inline constexpr std::array<char, 8> page_magic = {'t', 'r', 'i', 'r', 'p', 'a', 'g', 'e'};
inline constexpr std::uint32_t page_version = 6;
inline constexpr std::size_t page_bytes = 16384;

/// What a rank does at present, in the order in which a job passes them.
enum class Phase : std::uint32_t {
  start,
  sweep,
  mpi_init,
  mesh,
  program,  // its own code, between calls of the trainer
  plan,
  load,
  warm_up,
  step,
  evaluate,
  save_wait,
  finish,
  finished,
  failed
};
inline constexpr std::uint32_t phase_count = static_cast<std::uint32_t>(Phase::failed) + 1;
const char* name(Phase phase);

enum class OperationKind : std::uint32_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier,
  send,
  receive
};
inline constexpr std::uint32_t operation_kind_count =
    static_cast<std::uint32_t>(OperationKind::receive) + 1;
const char* name(OperationKind kind);

/// What a rank that does not compute waits for.
enum class WaitsFor : std::uint32_t { nothing, operations, data, storage };

/// Written before the page has its name, and never again.
struct PageHeader {
  std::array<char, 8> magic;
  std::uint32_t version, bytes;
  std::int32_t rank, ranks;
  std::int64_t pid;
  std::int64_t started_ticks;  // ticks from boot to the start of the process: pids are used again
  std::array<char, 64> host;
};

/// Where in the program the rank is.
struct PlaceWords {
  std::int64_t step;
  std::int32_t micro_batch;
  std::uint32_t action;  // name: "forward"
  std::int32_t op_index;
  std::uint32_t op;  // name: "attention"
};

struct AwaitedWords {
  std::uint64_t group;     // index in the table of groups
  std::uint64_t sequence;  // 1: the first operation of that group
};
struct WaitWords {
  static constexpr std::size_t most = 6;
  std::int64_t since_ns;
  std::uint32_t reason;  // WaitsFor
  std::uint32_t count;   // number of operations awaited, which may be more than `most`
  std::array<AwaitedWords, most> awaited;
};

struct OperationWords {
  std::uint64_t sequence;
  std::uint32_t group;
  std::uint16_t kind, dtype;
  std::int64_t count;  // elements
  std::int64_t peer;   // world rank of the other end of a message, or root; -1: none
  std::int64_t begun_ns, done_ns;
};

struct StepWords {
  std::int64_t step, compute_ns;
};

struct StackWords {
  static constexpr std::size_t most = 48;
  std::int64_t captured_ns;
  std::int64_t thread;
  std::uint64_t count;
  std::array<std::uint64_t, most> frames;
};

struct TextWords {
  std::array<char, 256> text;
};

/// Ranks first, first + stride, ...
struct RankRun {
  std::int32_t first, count, stride;

  /// Returns whether it fits a job of `ranks`; false also for a damaged one.
  bool is_within(std::int64_t ranks) const {
    const std::int64_t last = first + (std::int64_t{count} - 1) * stride;
    return count > 0 && count <= ranks && first >= 0 && first < ranks && last >= 0 && last < ranks;
  }

  bool operator==(const RankRun&) const = default;
};

struct GroupWords {
  std::uint32_t name;
  std::uint32_t channel;               // 1: messages from its first member to its second
  std::uint32_t runs_begin, runs_end;  // range of its members; none where the table was full
  std::atomic<std::uint64_t> begun, done;
};

/// The page. What is no record of its own is one word, stored at once.
struct PageLayout {
  static constexpr std::size_t operations = 64, steps = 64, most_groups = 48, most_runs = 96;
  static constexpr std::size_t name_bytes = 4096, group_name_bytes = 1024;  // these of those

  PageHeader header;
  alignas(64) std::atomic<std::uint64_t> ops;  // op boundaries, and other signs of progress
  std::atomic<std::int64_t> moved_ns;          // when `ops` changed; coarse clock
  std::atomic<std::int64_t> heartbeat_ns;      // when a waiting rank last polled; coarse clock
  std::atomic<std::int64_t> longest_gap_ns;    // between ops, waits left out, since the second step
  std::atomic<std::uint64_t> phase;
  std::atomic<std::int64_t> phase_ns;
  std::atomic<std::int64_t> durable_step, memory_step, local_step;  // newest checkpoints; -1: none
  std::atomic<std::uint64_t> loss_bits;                             // bits of a double
  std::atomic<std::int64_t> micro_batches;  // per step on this rank; 0: unknown
  std::atomic<std::int64_t> sharing;        // ranks of its GPU; 0: it has none; -1: unknown
  std::atomic<std::uint64_t> operations_begun, steps_done;
  std::atomic<std::uint64_t> group_count, run_count, names_used;
  std::atomic<std::uint64_t> injection;  // see injection.h; the only word that others write

  alignas(64) SequenceLocked<PlaceWords> place;
  SequenceLocked<WaitWords> wait;
  SequenceLocked<TextWords> error, coordinates;
  SequenceLocked<StackWords> stack;
  std::array<SequenceLocked<StepWords>, steps> step_ring;
  std::array<SequenceLocked<OperationWords>, operations> operation_ring;
  std::array<GroupWords, most_groups> groups;
  std::array<RankRun, most_runs> runs;
  std::array<char, name_bytes> names;  // length, bytes, length, bytes, ...; offset 0: the empty one
};
static_assert(sizeof(PageLayout) <= page_bytes);
static_assert(offsetof(PageLayout, ops) == 128);

}  // namespace trireme::observe
