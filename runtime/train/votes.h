// Votes: what all ranks agree on at the end of a step. The votes travel with the loss and the
// metrics in one sum over all ranks, so that an agreement costs no collective of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace trireme::train {

class Votes {
 public:
  using Vote = std::function<double()>;
  using Reaction = std::function<void(double sum)>;

  /// Registers one contributor, in the same order on all ranks. `vote` returns the vote of this
  /// rank, and `react` takes the sum of all ranks. Reactions follow the order of registration.
  void add(Vote vote, Reaction react) { voters_.emplace_back(std::move(vote), std::move(react)); }

  std::size_t count() const { return voters_.size(); }

  /// Writes the votes of this rank to the first count() elements. Allocates nothing.
  void cast(std::span<double> votes) const {
    for (std::size_t i = 0; i < count(); ++i) votes[i] = voters_[i].first();
  }

  /// Gives each contributor its sum. Allocates nothing itself.
  void settle(std::span<const double> sums) const {
    for (std::size_t i = 0; i < count(); ++i) voters_[i].second(sums[i]);
  }

 private:
  std::vector<std::pair<Vote, Reaction>> voters_;
};

}  // namespace trireme::train
