// The words of PROGRAM as the supervisor reads and changes them, and those of mpirun before it.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

using Words = std::vector<std::string>;

/// The words of a text, between spaces.
Words words_in(const std::string& text);
/// The value of an option: of "--save DIR" or "--save=DIR"; the last one counts. Empty: not given.
std::string option_of(const Words& words, const std::string& name);
/// "90", "90s", "30m", "12h", "2d" as seconds. Throws: Error with the reason only.
double parse_duration(const std::string& text);

/// What the words say of the job.
struct Job {
  Words words;          // PROGRAM and its options
  std::string run;      // the directory of checkpoints; of what the supervisor writes as well
  bool watched = true;  // it saves there
  std::string metrics;  // empty: it is not watched
  std::string iterations = {};    // --train-iters; empty: not given
  bool compares = true;           // data replicas: not with --check-replicas 0
  bool auto_saves = false;        // --save-interval auto: AttemptPlan::saves
  std::string save_seconds = {};  // --save-interval-seconds; empty: not given
  bool snapshots = false;         // in memory: --save-memory-interval
  bool saves_between = true;      // not at its end only
  std::string name() const;       // of the program, without its directory
};
/// `run_dir`: --run-dir; empty: the --save of the words. Throws: Error when there is neither, or
/// both and they differ.
Job make_job(const Words& words, const std::string& run_dir);

/// The words of an attempt: it saves and loads in the directory of the run. What an attempt started
/// from (another --load, --ckpt-step, --finetune) no longer counts once the run has saved.
Words words_of(const Job& job, const AttemptPlan& plan);

/// `words` with `options`, in place of those that set the same.
Words with_options_of(const Words& words, const Words& options);
/// `options`: of --also-layout. Throws: Error where they set what is that of the run, on whatever
/// layout: the supervisor reads it in the words of PROGRAM only.
void check_layout_options(const Words& options);

/// How mpirun is started.
struct Launch {
  Words mpirun;              // "mpirun", and options of the user
  std::string scratch;       // private directory of the attempt on disk
  std::string shared;        // and in memory; of this machine only
  std::string remote_shell;  // empty: that of Open MPI
  Words exported;            // names of variables that ranks on other hosts need
};
Words mpirun_words(const Launch& launch, const AttemptPlan& plan, const Words& program);
/// Variables, "NAME=VALUE", with which mpirun starts sooner: hwloc of Open MPI does not look for
/// PCI devices, disks and displays, by which only a network adapter would be chosen. None with
/// hosts, nor where the user has set one.
Words quick_start_variables(const AttemptPlan& plan);

}  // namespace trireme::supervisor
