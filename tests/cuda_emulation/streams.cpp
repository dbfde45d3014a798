#include "tests/cuda_emulation/streams.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <sched.h>

#include "tests/cuda_emulation/grid.h"
#include "tests/cuda_emulation/settings.h"

namespace trireme::emulation {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::microseconds(200);  // then others may move on, too
constexpr std::uint64_t most_outstanding = 1024;
constexpr auto longest_stall = std::chrono::seconds(100);  // tests under mpirun have 115

}  // namespace

Streams& Streams::instance() {
  static Streams streams;
  return streams;
}

Streams::Streams() {
  streams_.push_back(std::make_unique<Stream>(0, Urgency::ordinary));
  set_schedule(setting("EMULATION_SCHEDULE", "eager"));
}

void Streams::set_schedule(const std::string& text) {
  const auto [word, number] = parse_setting(text, 1);
  random_ = number * 977 + 1;
  ahead_ = static_cast<std::size_t>(number);
  if (word == "eager")
    schedule_ = Schedule::eager;
  else if (word == "lazy")
    schedule_ = Schedule::lazy;
  else if (word == "random")
    schedule_ = Schedule::random;
  else if (word == "ahead")
    schedule_ = Schedule::ahead;
  else
    refuse_setting(text, "eager, lazy, ahead:STREAM, random:SEED");
}

void Streams::begin_again(const std::string& schedule) {
  set_schedule(schedule);
  ahead_ += streams_.size() - 1;
}

std::uint64_t Streams::random() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return random_ >> 33;
}

Stream& Streams::make(Urgency urgency) {
  streams_.push_back(std::make_unique<Stream>(static_cast<int>(streams_.size()), urgency));
  return *streams_.back();
}

std::uint64_t Streams::queued() const {
  std::uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->issued_;
  return sum;
}

void Streams::make_room(Stream& stream) {
  while (stream.outstanding() >= most_outstanding) nudge(stream);
}

void Streams::push(Stream& stream, const char* name, std::function<bool()> step) {
  make_room(stream);
  note(stream, name);
  stream.queue_.push_back({name, ++stream.issued_, std::move(step)});
  after_push();
}

void Streams::push_wait(Stream& stream, const Stream& other, std::uint64_t sequence) {
  make_room(stream);
  stream.queue_.push_back({"wait for an event", ++stream.issued_, {}, &other, sequence});
  after_push();
}

void Streams::after_push() {
  last_move_ = Clock::now();  // the host is busy, so it does not wait
  switch (schedule_) {
    case Schedule::eager:
      while (advance_any()) {
      }
      break;
    case Schedule::ahead:
      if (ahead_ < streams_.size())
        while (advance(*streams_[ahead_])) {
        }
      break;
    case Schedule::random:
      for (std::uint64_t i = random() & 3; i > 0; --i) advance_any();
      break;
    case Schedule::lazy:
      break;
  }
}

/// Moves on by (part of) one operation; true when something happened.
bool Streams::advance(Stream& stream) {
  if (stream.queue_.empty()) return false;
  Stream::Operation& operation = stream.queue_.front();
  if (operation.waits_for != nullptr && !operation.waits_for->done(operation.waits_for_sequence))
    return false;
  if (operation.step && !operation.step()) return false;
  stream.done_ = operation.sequence;
  spend(1);
  stream.queue_.pop_front();
  last_move_ = Clock::now();
  return true;
}

bool Streams::advance_any() {
  const std::size_t first = schedule_ == Schedule::random ? random() % streams_.size() : 0;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (advance(*streams_[(first + i) % streams_.size()])) return true;
  return false;
}

/// Only what a wait for `stream` implies: its head, or what the head waits for.
bool Streams::advance_chain(Stream& stream) {
  Stream* next = &stream;
  for (std::size_t hops = 0; hops <= streams_.size() && !next->queue_.empty(); ++hops) {
    const Stream::Operation& head = next->queue_.front();
    if (head.waits_for == nullptr || head.waits_for->done(head.waits_for_sequence)) break;
    next = streams_[static_cast<std::size_t>(head.waits_for->id())].get();
  }
  return advance(*next);
}

void Streams::run_until(Stream& stream, std::uint64_t sequence) {
  if (Grid::instance().in_kernel()) Grid::instance().fail("calls the CUDA runtime");
  while (!stream.done(sequence)) nudge(stream);
}

void Streams::nudge(Stream& stream) {
  ++questions_;
  note(stream, "host waits");
  bool moved = false;
  if (schedule_ == Schedule::ahead && ahead_ < streams_.size()) moved = advance(*streams_[ahead_]);
  moved = (holds_back() ? advance_chain(stream) : advance_any()) || moved;
  const auto idle = Clock::now() - last_move_;
  if (moved || idle < patience) return;
  if (advance_any()) return;
  if (idle > longest_stall) report_stall();
  ::sched_yield();
}

void Streams::report_stall() const {
  std::fprintf(stderr, "cuda emulation: nothing moves any more:\n");
  for (const auto& stream : streams_)
    if (!stream->queue_.empty())
      std::fprintf(stderr, "  stream %d is at '%s', %zu more behind it\n", stream->id(),
                   stream->queue_.front().name, stream->queue_.size() - 1);
  std::abort();
}

void Streams::run_all() {
  for (std::size_t i = 0; i < streams_.size(); ++i) run_until(*streams_[i], streams_[i]->issued_);
}

void Streams::poke() {
  ++questions_;
  if (!holds_back() || Clock::now() - last_move_ > patience) advance_any();
}

}  // namespace trireme::emulation

/// For a program that trains several times, each time in another order of streams and threads.
extern "C" void emulation_read_settings() {
  using namespace trireme::emulation;
  Streams::instance().begin_again(setting("EMULATION_SCHEDULE", "eager"));
  Grid::instance().options = GridOptions::from_environment();
}
