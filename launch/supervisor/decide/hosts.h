// Hosts: which hosts an attempt may use and which it takes, by the list, the quarantine, the
// preflight, and what users gave back.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/supervisor/decide/layouts.h"
#include "launch/supervisor/decide/session.h"

namespace trireme::supervisor {

bool contains(const std::vector<Host>& hosts, const std::string& name);

class Hosts : Part {
 public:
  Hosts(Session& session, Layouts& layouts) : Part(session), layouts_(layouts) {}

  /// Chooses healthy hosts for an attempt, and waits for them. Returns false where they are too
  /// few, or where the supervisor was asked to stop.
  bool pick(AttemptPlan& plan);
  /// Returns how the session ends, where pick() has found too few.
  End why_none() const;
  /// Chooses those of the last attempt where they can be had, and the layout on them; without
  /// `left` where others are at hand. Returns false where they are too few. Throws: Error where the
  /// list cannot be read.
  bool choose(AttemptPlan& plan, const std::string& left = "");
  /// Returns whether the next attempt could have as many ranks without the host; nothing where that
  /// is not known yet.
  std::optional<bool> can_do_without(const AttemptPlan& plan, const std::string& host);
  /// Takes the hosts again that users gave back.
  void apply_releases();
  /// Returns the hosts that do not answer, where mpirun has lost one that it does not name; none
  /// where the supervisor was asked to stop before they were known.
  std::vector<std::string> await_unreachable(const Evidence& evidence);
  /// Takes notice of what the end of an attempt says of its hosts, and shows those that are in
  /// quarantine since `before`.
  void update(const AttemptEnded& ended, const AttemptPlan& plan,
              const std::vector<NodeState>& before);

  /// Parts of the time since they were taken last: too few hosts, and their preflight.
  struct Waited {
    double no_hosts_s = 0, preflight_s = 0;
  };
  Waited take_waited() { return std::exchange(waited_, {}); }

 private:
  bool pick_listed(AttemptPlan& plan);
  bool pick_healthy(AttemptPlan& plan);
  std::vector<Host> without(const std::vector<Host>& hosts, const std::vector<NodeState>& states,
                            const std::set<std::string>& left) const;
  std::string too_few() const;
  std::optional<Fitness> await_preflight(const std::vector<Host>& hosts, bool thorough);
  std::vector<Host> not_checked(const std::vector<Host>& hosts) const;
  bool pass_preflight(const std::vector<Host>& hosts);
  std::vector<Host> worth_a_long_preflight() const;
  bool lift_quarantines();
  void release(const std::string& host);
  void write_nodes();

  Layouts& layouts_;
  Waited waited_;
  std::vector<Host> listed_;                  // when they were read last
  std::string why_no_list_;                   // empty: it was read
  bool no_layout_ = false;                    // is legal on the hosts at hand
  std::set<std::string> fit_;                 // hosts that passed the preflight
  std::map<std::string, std::string> unfit_;  // hosts that did not, and why
  std::set<std::string> long_checked_;        // hosts that did not pass the long one
  double next_long_ = 0;                      // no long one before, as one could not be made
};

}  // namespace trireme::supervisor
