// A record in memory that processes share: one thread writes it, any process reads it, and neither
// waits for the other. A reader notices a record that its writer has not finished, also when that
// writer was killed inside the write.
//
// Words are stored with release and loaded with acquire order, so no fence is needed: a reader that
// sees a new word also sees that the sequence number has changed.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>
#include <type_traits>

namespace trireme::observe {

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

}  // namespace trireme::observe
