// PartnerCopies: of each rank's snapshot a second one on another node, so that the loss of a node
// loses no step either (--save-memory-partner). The partner of a rank is in the same place of the
// node half of all nodes further on. Copies lie beside the snapshots of the partner, in two slots
// as well.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/memory/piece_places.h"
#include "runtime/checkpoint/memory/slot_transfer.h"
#include "runtime/core/process/host_name.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/tiers/time_line.h"

namespace trireme::checkpoint {

/// Rank to rank: where a rank's snapshot is sent to. Empty where there is one node. `nodes`: the
/// name of the node of each rank.
std::vector<int> partners(const std::vector<std::string>& nodes);

class PartnerCopies {
 public:
  /// Collective. `mine`: the slots of this rank, which is on `node`.
  PartnerCopies(const Context& context, const store::Slots& mine,
                const std::string& node = host_name());

  /// What this rank finds of copies on its node, as text for all ranks; one rank of a node does.
  /// Only of steps of `line`.
  std::vector<std::string> found(const store::TimeLine& line) const;
  /// All ranks have found this. A line "form F" says that a rank needs headers of that form.
  void note(const std::vector<std::vector<std::string>>& found);
  /// Those of which a copy was found.
  std::vector<SnapshotStep> steps() const;
  /// Whether a copy for `rank` was found anywhere.
  bool has(const SnapshotStep& step, int rank) const;
  /// Collective. Brings the copies of `step` to the ranks in `lacking`, but to those that are
  /// `lost` on any rank; into `slot` of this rank, if it is one of them. Returns the header that
  /// came with it. `lost` is then that of all ranks, with copies that could not be sent.
  std::string fetch(const SnapshotStep& step, const std::vector<int>& lacking,
                    const store::Slots& mine, int slot, LostPieces& lost);

  /// Reserves memory; copies of other steps are forgotten.
  void open(const SnapshotStep* kept);
  /// Ranks whose copies belong to a rank of this node.
  std::vector<int> sources_of_node() const;

  /// Gives up the older copies that this rank has. Throws: Error.
  void prepare() const;
  /// Collective, when all ranks are prepared. Sends a complete snapshot to the partner, and
  /// receives those of the sources.
  void start(const store::Slots& mine, int slot, const std::string& header);
  bool poll() { return transfer_.poll(context_.host().stream); }
  void wait();
  /// All has arrived here: writes the headers. Throws: Error, after it has written all it could.
  void finish();
  /// All have finished. Without it the copies of these steps are the first to be overwritten.
  void confirm();

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

  const Context& context_;
  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  const std::string directory_;
  std::vector<std::string> nodes_;  // by rank
  std::vector<Index> bytes_;        // of a slot, by rank
  std::vector<int> partners_;
  std::vector<Source> sources_;
  std::map<SnapshotStep, std::map<int, Place>> places_;
  SlotTransfer transfer_;
};

}  // namespace trireme::checkpoint
