// AsyncCopies: the copies to shared memory (cp.async) that a thread has started and not yet waited
// for. Hostile on purpose: what is written is NaN from the start of the copy until the thread waits
// for it, so both a copy over what others still read and a read before the wait show.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

namespace trireme::emulation {

class AsyncCopies {
 public:
  /// The first `present` of `bytes` bytes come from `from`, the others are zeros.
  void start(void* to, const void* from, std::size_t bytes, std::size_t present) {
    std::memset(to, 0xff, bytes);
    open_.push_back({to, from, bytes, present});
  }
  /// Makes a group of what was started since the last one.
  void commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  /// Until no more than `groups` of the latest groups are under way. Waits for no copy that is in
  /// no group.
  void wait(std::size_t groups) {
    for (; groups_.size() > groups; groups_.pop_front())
      for (const Copy& copy : groups_.front()) {
        std::memset(copy.to, 0, copy.bytes);
        if (copy.present > 0) std::memcpy(copy.to, copy.from, copy.present);
      }
  }
  /// Copies that were never waited for.
  bool pending() const {
    for (const Group& group : groups_)
      if (!group.empty()) return true;
    return !open_.empty();
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes, present;
  };
  using Group = std::vector<Copy>;
  Group open_;
  std::deque<Group> groups_;
};

}  // namespace trireme::emulation
