// RankWatch: the ranks of an attempt as their status pages show them: whether any moves, the
// verdict when none does, and which are slow.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/machine/page_collector.h"
#include "launch/supervisor/machine/run_directory.h"
#include "runtime/observe/hang/hang_watch.h"
#include "runtime/observe/page_reader.h"

namespace trireme::supervisor {

/// Holds the last verdict on an attempt, and the stacks of ranks that hold it up.
inline constexpr const char* verdict_file = "verdict.json";

class RankWatch {
 public:
  struct Options {
    std::string pages;   // the directory of the status pages
    std::string folder;  // the folder of the attempt
    int ranks = 1;
    double hang_s = 0;             // --hang-timeout: the least limit; 0: that of HangLimits
    std::vector<Host> hosts = {};  // empty: all ranks are on this machine
    Index ranks_of_each = 1;       // the ranks of each of these hosts
  };
  /// `collector`: receives the pages of other machines, in the same directory; null where there are
  /// none.
  explicit RankWatch(Options options, std::unique_ptr<PageCollector> collector = nullptr);

  /// Returns whether pages of ranks are seen: other programs write none, and other machines may not
  /// answer.
  bool has_pages() const;
  /// Looks some times a second, however often it is called. Returns something when there is a
  /// verdict, which is then in the folder as well, or when a job of which there was one moves
  /// again.
  std::optional<Hang> observe(double now_s);
  /// Returns "rank 2 (n1, pp0 dp2 tp0), in "attention backward", step 3", as its last page says,
  /// which outlives it; empty: it has none.
  std::string last_place(int rank) const;
  /// Returns the GPUs of a rank, as the first page says that does: 0 on CPUs, a part of one where
  /// ranks share it; -1: none says it.
  double gpus_per_rank();
  /// Returns the ranks and nodes that are slower than others, a line each.
  std::vector<std::string> slow() const;
  /// Returns those of `hosts` that have ranks slower than others.
  std::vector<SlowHost> slow_hosts() const;

 private:
  void open_pages();
  std::vector<observe::PageState> pages() const;
  std::vector<observe::RankProgress> progress() const;
  std::vector<observe::RankReport> reports() const;
  observe::RankReport remote_report(int rank) const;
  observe::Verdict judge(double now_s, const observe::JudgeOptions& options);
  void write(const observe::HangWatch::Decision& decision);
  Json stacks(const observe::Verdict& verdict);

  const Options options_;
  const std::unique_ptr<PageCollector> collector_;
  observe::HangWatch watch_;
  std::vector<std::unique_ptr<observe::PageReader>> readers_;  // by rank; null: no page so far
  double looked_at_ = -1;
  double asked_at_ = -1;        // when other machines were asked
  double logged_quiet_s_ = -1;  // that of the verdict in the folder; -1: there is none
};

/// Returns by rank what is known of the ranks of the attempt that runs, or of which the supervisor
/// has died, as its machine has their pages; it is not known whether processes on other machines
/// run. Returns none between attempts, and on other machines. `unreadable` gets why a page cannot
/// be read, as of a job of another version of trireme.
std::vector<observe::RankReport> reports_of_attempt(const Paths& paths, const History& history,
                                                    std::string& unreadable);
/// Returns the pages in these reports.
std::vector<observe::PageState> pages_in(const std::vector<observe::RankReport>& reports);
std::vector<observe::PageState> pages_of_attempt(const Paths& paths, const History& history);
/// Returns what the kernel says of the process of a rank: "running", "stopped (SIGSTOP)", "gone";
/// "unknown" on another machine.
std::string describe_process(const observe::RankReport& rank);
/// Returns why no rank moves, where none has moved for a second; empty: one has, or no reason is
/// seen. All processes are to be of this machine.
std::string describe_stall(const std::vector<observe::RankReport>& reports);
/// Returns the lines of RankWatch::slow() for these pages.
std::vector<std::string> describe_slow(const std::vector<observe::PageState>& pages);

}  // namespace trireme::supervisor
