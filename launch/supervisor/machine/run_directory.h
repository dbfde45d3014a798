// The directory of a run as the supervisor uses it: RUN/supervisor and what lies there, private
// directories of attempts, and what RUN itself says of progress. Nothing here changes a checkpoint.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/records/ledger.h"

namespace trireme {
class Lease;
class Problems;
}  // namespace trireme

namespace trireme::supervisor {

/// Names in RUN/supervisor.
struct Paths {
  explicit Paths(const std::string& run);
  std::string run, folder, lock, ledger, nodes, stop, preflight, place;
  std::string attempt(Index number) const;  // "RUN/supervisor/attempt-0007"
};

/// A file in RUN/supervisor whose name ends with a host that users gave back.
inline constexpr const char* release_prefix = "release-";

/// The right to supervise a run. Throws: Error that names the process that has it.
/// `log` gets a line where that takes time, as it does where one on another machine may still run.
std::unique_ptr<Lease> take_run(const Paths& paths,
                                const std::function<void(const std::string& line)>& log);
/// The process that supervises the run, "pid 71 on node3 (...)"; nothing: none does.
std::optional<std::string> supervisor_of(const Paths& paths);

/// The ledger of a run; empty where there is none. Throws: Error where a newer trireme wrote it.
History read_history(const Paths& paths);
/// Reads it too. Throws: Error when no supervisor ever had the run.
History history_of(const Paths& paths);
/// Throws: Error when the directory is not that of a run, or of another program than `job`.
void check_run(const Job& job, const History& history);

/// Makes the directory of the run, and looks at that in which attempts have theirs ($TMPDIR). Adds
/// what is wrong with either, or with the working directory.
void make_run_directory(const Job& job, Problems& problems);

/// Returns what the job has written of its start (store/tiers/time_line.h).
Started started_from(const Paths& paths, Index attempt);
/// Committed steps whose manifest and file sizes hold, newest first; `most` of them, and none newer
/// than `newest`.
std::vector<Index> durable_steps(const std::string& run, std::size_t most,
                                 Index newest = std::numeric_limits<Index>::max());
/// Whether the manifest of the newest such step is of this date, or later.
bool has_saved_since(const std::string& run, Index date);
/// --train-iters, of the words of the job or of the newest checkpoint; -1: unknown.
Index iterations_of(const Job& job);
/// Whether --train-iters steps are done.
bool training_is_finished(const Job& job);

/// The files of the run of a job. Of one that is not watched nothing is known.
class JobFiles : public RunFiles {
 public:
  /// Opens the ledger. Throws: Error.
  JobFiles(const Job& job, const Paths& paths) : job_(job), paths_(paths), ledger_(paths.ledger) {}

  void append(const Json& line) override { ledger_.append(line); }
  std::vector<Index> durable_steps() const override;
  Index newest_durable_up_to(Index step) const override;
  bool has_saved_since(Index date) const override;
  Index iterations() const override;
  Started started_from(Index attempt) const override;
  bool training_is_finished() const override;
  std::string log_of(Index attempt) const override;
  std::vector<std::string> released_hosts() const override;
  void forget_release(const std::string& host) override;

 private:
  const Job& job_;
  const Paths& paths_;
  LedgerFile ledger_;
};

/// Removes folders of attempts before the last ten.
void forget_attempts(const Paths& paths, Index newest);

/// Directories of this machine for one attempt: what Open MPI writes there goes with it. Other
/// users can neither foresee their names nor enter them.
struct PrivateDirectories {
  std::string scratch, shared;  // on disk, in memory
  /// Where ranks write their status pages: those of other machines too, at that path there.
  std::string pages() const { return shared + "/pages"; }
  /// Where the supervisor keeps copies of those of other machines.
  std::string copies() const { return shared + "/copies"; }
};
/// Returns what distinguishes this run from all others: a directory that is renamed keeps its key,
/// a copy of one has its own. `run_id`: as the ledger has it.
std::string key_of(const Paths& paths, const std::string& run_id);
/// Notes where the run was first, from which its key is made.
void keep_place(const Paths& paths, const std::string& run_id);
PrivateDirectories make_private_directories(const std::string& key, Index attempt);
/// Returns those of an attempt that runs on this machine; paths of none where none does.
PrivateDirectories find_private_directories(const Paths& paths, const std::string& key,
                                            Index attempt);
/// Returns a secret by which a process shows that it may ask for something: 32 hexadecimal digits,
/// from the random numbers of the kernel.
std::string new_token();
/// Removes those of all attempts of the run.
void remove_private_directories(const std::string& key);

}  // namespace trireme::supervisor
