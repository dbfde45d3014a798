// Streams of the emulated CUDA runtime: real queues of operations, run in an order that is legal
// but hostile. Each order finds another kind of mistake:
//   eager    everything runs as soon as it can: finds what is overwritten before it was read ("ran
//            too early")
//   lazy     nothing runs before the host waits, and then only what that wait implies ("ran too
//            late")
//   ahead:N  as lazy, but stream N runs as far ahead as its waits allow (a missing wait at its
//            head)
//   random:S a random stream moves on by one operation at a time; S: seed
// A stream takes 1024 operations. The next one holds its caller until one has ended, inside the
// "driver": no stream advances. An operation may wait for other processes (nccl_state.h).
// As on a GPU, the other streams are not blocked by that without end, whatever the order: a host
// that sees nothing move for a while lets any of them move on.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trireme::emulation {

/// Urgent: made with a priority, as the queues of collectives are.
enum class Urgency { ordinary, urgent };

class Stream {
 public:
  Stream(int id, Urgency urgency) : urgency_(urgency), id_(id) {}
  int id() const { return id_; }
  bool urgent() const { return urgency_ == Urgency::urgent; }
  std::uint64_t issued() const { return issued_; }
  bool done(std::uint64_t sequence) const { return done_ >= sequence; }
  std::uint64_t outstanding() const { return issued_ - done_; }

 private:
  friend class Streams;
  struct Operation {
    const char* name;
    std::uint64_t sequence;
    std::function<bool()> step;  // true when finished, called again until then; empty: only waits
    const Stream* waits_for = nullptr;
    std::uint64_t waits_for_sequence = 0;
  };
  std::deque<Operation> queue_;
  std::uint64_t issued_ = 0, done_ = 0;
  Urgency urgency_;
  int id_;
};

class Streams {
 public:
  enum class Schedule { eager, lazy, ahead, random };

  /// The streams of this process. The schedule comes from EMULATION_SCHEDULE; eager when not set.
  static Streams& instance();
  /// "lazy", "ahead:2", "random:7"
  void set_schedule(const std::string& text);
  /// The same for a program that opens another device: streams that are made from now on count from
  /// 1 again.
  void begin_again(const std::string& schedule);

  Stream& default_stream() { return *streams_.front(); }
  /// Lives as long as the process: events may still point at it, and what is left in it runs when
  /// it can.
  Stream& make(Urgency urgency);
  /// Streams made so far, which is the id of the next one.
  int count() const { return static_cast<int>(streams_.size()); }

  /// Operations of all streams so far.
  std::uint64_t queued() const;
  /// How often the host has asked so far for what was not done.
  std::int64_t questions() const { return questions_; }
  void push(Stream& stream, const char* name, std::function<bool()> step);
  void push_wait(Stream& stream, const Stream& other, std::uint64_t sequence);
  /// The host waits for operation `sequence` of `stream`.
  void run_until(Stream& stream, std::uint64_t sequence);
  void run_all();
  /// What a query does that does not wait: something may happen.
  void poke();
  /// One round of waiting for `stream`, as when the host asks again and again whether it is ready.
  /// Ends the program, with what every stream is at, when nothing has moved for very long.
  void nudge(Stream& stream);

  /// What happens to `stream` from here on, in order: the names of operations that are queued, and
  /// "host waits". Null: of none any more.
  void record(const Stream* stream, std::vector<std::string>* to) {
    recorded_ = stream;
    record_ = to;
  }

  /// The time that operations seem to have taken so far: one microsecond each, and what they spend
  /// themselves.
  double clock_us() const { return clock_us_; }
  void spend(double us) { clock_us_ += us; }

 private:
  Streams();
  void make_room(Stream& stream);
  void after_push();
  void note(const Stream& stream, const char* what) {
    if (&stream == recorded_) record_->emplace_back(what);
  }
  /// Nothing runs that the host does not wait for.
  bool holds_back() const { return schedule_ == Schedule::lazy || schedule_ == Schedule::ahead; }
  bool advance(Stream& stream);
  bool advance_any();
  bool advance_chain(Stream& stream);
  std::uint64_t random();
  [[noreturn]] void report_stall() const;

  std::vector<std::unique_ptr<Stream>> streams_;  // [0]: the default stream
  Schedule schedule_ = Schedule::eager;
  std::size_t ahead_ = 0;
  std::uint64_t random_ = 1;
  std::chrono::steady_clock::time_point last_move_ = std::chrono::steady_clock::now();
  double clock_us_ = 0;
  const Stream* recorded_ = nullptr;
  std::vector<std::string>* record_ = nullptr;
  std::int64_t questions_ = 0;
};

}  // namespace trireme::emulation
