// PageCollector receives the status pages of ranks on other machines. Agents (observe::PageAgent),
// one on each, connect to it and send pages, which it keeps as files of this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/observe/process_state.h"
#include "runtime/observe/remote/page_agent.h"
#include "runtime/observe/stack/stack_capture.h"

namespace trireme::supervisor {

class PageCollector {
 public:
  /// `directory`: where the copies are; it is made. Throws: Error when it cannot be, or no
  /// connections can be taken.
  PageCollector(std::string directory, int ranks);
  ~PageCollector();
  PageCollector(const PageCollector&) = delete;
  PageCollector& operator=(const PageCollector&) = delete;

  const std::string& directory() const { return directory_; }
  const observe::SupervisorAddress& address() const { return address_; }

  /// Takes what has come. Never waits.
  void poll();
  /// Asks for all pages, and waits for them. Agents from which nothing has come for `silent_s` are
  /// not waited for.
  void request(double silent_s);
  /// Returns whether anything has come in the last `silent_s` seconds: where agents of several
  /// other machines are connected, from one of these. The agent of this machine answers also while
  /// this machine is cut off from all others.
  bool any_answers_within(double silent_s) const;

  struct RemoteRank {
    bool running = false;  // its process runs
    observe::ProcessState state;
    std::int64_t clock_ahead_ns = 0;  // its machine's clock minus that of this one
    double heard_s = 0;               // how long ago its agent was heard
    bool connected = true;  // its agent is; for some time also when its machine is cut off
  };
  /// Returns what is known of a rank; nothing where no page has come.
  std::optional<RemoteRank> find(int rank) const;
  observe::NamedStack stack_of(int rank, double seconds);

 private:
  struct Agent;
  struct Copy;
  void listen();
  void take_connections();
  void receive(Agent& agent);
  bool receive(Agent& agent, const observe::ReceivedMessage& message);
  bool take_page(Agent& agent, const observe::ReceivedMessage& message);
  void drop_unknown();

  const std::string directory_;
  const int ranks_;
  observe::SupervisorAddress address_;
  int socket_ = -1;
  int asked_ = 0;  // requests so far
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<std::unique_ptr<Copy>> copies_;  // by rank
};

}  // namespace trireme::supervisor
