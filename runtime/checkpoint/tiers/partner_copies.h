// PartnerCopies: a second copy of each rank's snapshot on another node, so that the loss of a node
// loses no step either (--save-memory-partner). The partner of a rank is in the same place of the
// node half of all nodes further on. Copies lie beside the snapshots of the partner, in two slots
// as well. A copy has two rounds of votes: all have given up the older copy that it overwrites; all
// have received theirs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/tiers/slot_transfer.h"
#include "runtime/checkpoint/tiers/tier.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/observe/status_page.h"

namespace trireme::checkpoint {

/// Returns by rank the rank that its snapshot is sent to; empty where there is one node. `nodes`:
/// the name of the node of each rank.
std::vector<int> partners(const std::vector<std::string>& nodes);

class PartnerCopies final : public CopyTier {
 public:
  /// Collective. `mine`: the slots of this rank, which is on `node`. `warned`: whether a failure of
  /// this rank in memory was shown; later ones are not.
  PartnerCopies(const Context& context, const store::Slots& mine, bool& warned,
                const std::string& node = host_name());

  /// Collective. Returns what copies of a rank take of the memory of `node` beyond its own
  /// snapshots, which are `bytes` in all; less than 0 where they take less.
  static Index more_than_own(const Context& context, Index bytes, const std::string& node);

  /// Reserves memory, and forgets copies of steps other than `kept`.
  void open(const std::optional<SnapshotStep>& kept);
  /// Returns the ranks whose copies belong to a rank of this node.
  std::vector<int> sources_of_node() const;
  /// Returns whether some rank has no copy of this step: the newest step with copies is then the
  /// one before it.
  bool has_lost(Index step) const { return lost_ == step; }

  bool due(Index) const override { return true; }
  void start(const store::Slots& memory, int slot, const store::SlotHeader& header) override;
  bool needs(int) const override { return !is_idle(); }
  void poll() override;
  void end(bool give_up) override;
  Index newest() const override { return newest_; }

  PieceAt place() const override { return PieceAt::partner; }
  std::string describe() const override { return "another node"; }
  /// One rank of a node finds the copies of all ranks there.
  std::vector<std::string> find(
      const store::TimeLine& line,
      const std::function<bool(const store::SlotHeader&)>& is_mine) override;
  /// A line "form F" says that a rank needs headers of that form.
  void note(const std::vector<std::vector<std::string>>& found, PiecePlaces& places) override;
  /// Afterwards `lost` is that of all ranks.
  std::string fetch(const SnapshotStep& step, const std::vector<int>& ranks,
                    const store::Slots& memory, int slot, LostPieces& lost) override;

 private:
  struct Place {
    int holder, slot;
  };
  struct Source {
    int rank;
    store::Slots slots;
    int next = 0;  // the slot to fill
  };
  store::Slots copies_of(int rank) const;
  void send();
  void write_headers();
  void wait() { transfer_.wait(context_.host().stream, page_); }
  void complete() override;
  void give_up() override { lost_ = header_.step; }
  void warn(const std::string& why) override;

  const Context& context_;
  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  const std::string directory_;
  std::vector<std::string> nodes_;  // by rank
  std::vector<Index> bytes_;        // bytes of a slot, by rank
  std::vector<int> partners_;
  std::vector<Source> sources_;
  std::map<SnapshotStep, std::map<int, Place>> places_;
  SlotTransfer transfer_;
  std::byte* memory_ = nullptr;  // the snapshot that is copied
  store::SlotHeader header_;
  bool sent_ = false;
  Index newest_ = -1;
  std::optional<Index> lost_;
  bool& warned_;
};

}  // namespace trireme::checkpoint
