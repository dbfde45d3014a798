// The words of PROGRAM as the supervisor reads and changes them, and those of mpirun before it.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

using Words = std::vector<std::string>;

/// Returns the words of a text, between spaces.
Words words_in(const std::string& text);
/// Returns the value of an option: of "--save DIR" or "--save=DIR"; the last one counts. Empty: it
/// is not given.
std::string option_of(const Words& words, const std::string& name);
/// Reads "90", "90s", "30m", "12h" or "2d" as seconds. Throws: Error with the reason only.
double parse_duration(const std::string& text);

/// What the words say of the job.
struct Job {
  Words words;                    // PROGRAM and its options
  std::string run;                // the directory of checkpoints, and of what the supervisor writes
  bool watched = true;            // it saves in that directory
  std::string metrics;            // the file of its metrics; empty: it is not watched
  std::string iterations = {};    // --train-iters; empty: not given
  bool compares = true;           // its data replicas are compared: not with --check-replicas 0
  bool auto_saves = false;        // --save-interval auto: AttemptPlan::saves
  std::string save_seconds = {};  // --save-interval-seconds; empty: not given
  bool snapshots = false;         // it keeps snapshots in memory: --save-memory-interval
  bool saves_between = true;      // it saves before its end as well
  std::string name() const;       // that of the program, without its directory
};
/// Reads the words of a job. `run_dir`: --run-dir; empty: the --save of the words. Throws: Error
/// when there is neither, or both and they differ.
Job make_job(const Words& words, const std::string& run_dir);

/// Returns the words of an attempt: it saves and loads in the directory of the run. What an attempt
/// started from (another --load, --ckpt-step, --finetune) no longer counts once the run has saved.
Words words_of(const Job& job, const AttemptPlan& plan);

/// Returns `words` with `options`, in place of those that set the same.
Words with_options_of(const Words& words, const Words& options);
/// Checks the options of --also-layout. Throws: Error where they set what belongs to the run on
/// every layout: the supervisor reads that in the words of PROGRAM only.
void check_layout_options(const Words& options);

/// How mpirun is started.
struct Launch {
  Words mpirun;              // "mpirun", and options of the user
  std::string scratch;       // the private directory of the attempt on disk
  std::string shared;        // and that in memory of this machine
  std::string remote_shell;  // empty: that of Open MPI
  Words exported;            // names of variables that ranks on other hosts need
};
Words mpirun_words(const Launch& launch, const AttemptPlan& plan, const Words& program);
/// Returns variables, "NAME=VALUE", with which mpirun starts sooner: hwloc of Open MPI does not
/// look for PCI devices, disks and displays, by which only a network adapter would be chosen.
/// Returns none with hosts, nor where the user has set one.
Words quick_start_variables(const AttemptPlan& plan);

}  // namespace trireme::supervisor
