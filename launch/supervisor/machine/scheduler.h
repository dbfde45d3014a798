// Where the hosts of a run come from: a file, the allocation of a Slurm job, or the workers of a
// Kubernetes MPIJob; which of them do not answer; and a Slurm job that is queued again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/core/process/child.h"

namespace trireme::supervisor {

/// Where the hosts come from; it is read again before each attempt.
struct HostSource {
  enum class Kind { this_machine, hostfile, slurm, discovery };
  Kind kind = Kind::this_machine;
  std::string name;  // for messages: "--hostfile FILE", "Slurm job 17"
  std::string path;  // the file, or the script that prints lines like those of the file
  std::string text;  // such lines, for a Slurm job
};

/// Returns the value of a variable of the environment; empty: not set.
using Environment = std::function<std::string(const std::string& name)>;
std::string variable_of_this_process(const std::string& name);

/// The MPI operator of Kubernetes writes this script, which prints the workers that run.
inline const std::string mpijob_discovery = "/etc/mpi/discover_hosts.sh";

struct HostRequest {
  std::string hostfile;             // --hostfile; empty: not given
  std::vector<std::string> mpirun;  // mpirun and its options
  bool several = false;             // --nodes and --spares are more than one host
};
/// Finds where the hosts come from: --hostfile comes first, then a Slurm job of several nodes, then
/// `discovery`, where there is such a file. Throws: Error when the options of mpirun name hosts,
/// which it alone would know, or the list of Slurm's nodes cannot be read.
HostSource find_hosts(const HostRequest& request, const Environment& environment,
                      const std::string& discovery = mpijob_discovery);

/// Reads `lines` by parse_hosts(), with `name`, where they are from, before its errors. Throws:
/// Error.
std::vector<Host> hosts_in(const std::string& lines, const std::string& name, Index default_slots);
/// Returns the hosts of a source; empty: this machine. Throws: Error.
std::vector<Host> read_hosts(const HostSource& source, Index default_slots);

/// Returns node1, node2, node3, node07 and gpu5 for "node[1-3,07],gpu5". Throws: Error.
std::vector<std::string> expand_nodelist(const std::string& list);

/// Returns whether the batch script of a Slurm job asks to keep the job when a node is lost. Slurm
/// shows that nowhere else.
bool asks_for_no_kill(const std::string& batch_script);
/// Asks that for the job of this process: SBATCH_NO_KILL and SLURM_NO_KILL count as well.
bool job_has_no_kill(const Environment& environment);

// Which hosts do not answer: mpirun does not name a host on which it could start nothing.

/// Returns the command by which mpirun starts its daemons on other hosts; empty where a scheduler
/// does. `given`: --remote-shell.
Words remote_shell_of(const std::string& given, const Words& mpirun, const HostSource& source,
                      const Environment& environment);

/// Finds those where `shell HOST true` fails, or takes longer than `longest_s`; all are tried at
/// once. This machine, which needs no shell, is left out. Finds none where none of several hosts
/// answers: then it is rather the shell.
class UnreachableHosts : public Pending<std::vector<std::string>> {
 public:
  UnreachableHosts(std::set<pid_t>& family, const std::vector<Host>& hosts, const Words& shell,
                   double longest_s);
  std::optional<std::vector<std::string>> poll() override;

 private:
  struct Probe {
    std::string host;
    std::unique_ptr<Child> program;
  };
  std::vector<Probe> probes_;
};

// --requeue-self: a Slurm job that was stopped and saved is queued again.

/// Returns whether Slurm queues a job again that ends with `exit_code`: RequeueExit of `scontrol
/// show config`, such as "RequeueExit = 75,130-134".
bool slurm_requeues(const std::string& config, int exit_code);

/// Queues the job again unless Slurm will, which ends this process. Returns what it did, or what
/// went wrong, for people.
std::string requeue_slurm_job(const std::string& job, int exit_code);

}  // namespace trireme::supervisor
