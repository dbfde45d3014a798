// LostPieces: pieces of a snapshot that turned out to be of no use in the place where they were to
// be taken from, and why. What a rank notices may be about the piece of another one.
#pragma once

#include <map>
#include <string>

#include "trireme/comm/host.h"

namespace trireme::checkpoint {

class LostPieces {
 public:
  /// Of one rank the first reason counts.
  void add(int rank, const std::string& why) { reasons_.emplace(rank, why); }
  /// Work on the piece of `rank`, which is lost where it throws; none if it is lost already.
  template <class F>
  void collect(int rank, F&& work) {
    if (!has(rank)) try {
        work();
      } catch (const std::exception& error) {
        add(rank, error.what());
      }
  }
  bool has(int rank) const { return reasons_.count(rank) > 0; }
  bool empty() const { return reasons_.empty(); }
  /// By rank, why.
  const std::map<int, std::string>& reasons() const { return reasons_; }
  /// Collective. What all ranks have noticed, the same on every rank.
  LostPieces of_all(const Host& host) const;
  /// Of the lowest rank, and how many more there are.
  std::string text() const;

 private:
  std::map<int, std::string> reasons_;
};

}  // namespace trireme::checkpoint
