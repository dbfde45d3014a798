// One attempt: mpirun is started, watched and ended, with every process that it leaves.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include <poll.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/core_files.h"
#include "launch/supervisor/machine/machine.h"
#include "launch/supervisor/machine/processes.h"
#include "launch/supervisor/machine/reach.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr double end_by_itself_s = 2;  // mpirun, after SIGTERM
constexpr double probe_s = 10;         // of a host

/// Where ranks write signs of GPUs (runtime/job/gpu_health.h).
std::string health_of(const Paths& paths, Index attempt) {
  return paths.attempt(attempt) + "/gpu_health";
}

}  // namespace

void Machine::start(const AttemptPlan& plan) {
  attempt_ = plan.attempt;
  began_ = date();
  forget_attempts(paths_, plan.attempt);
  fs::create_directories(health_of(paths_, plan.attempt));
  hosts_ = plan.hosts;
  ranks_ = plan.slots > 0 ? plan.slots * std::ssize(plan.hosts) : plan.ranks;
  remove_private_directories(key_);
  own_ = make_private_directories(key_, plan.attempt);
  log_ =
      std::make_unique<OutputLog>(paths_.attempt(plan.attempt) + "/output.log", options_.log_bytes);
  reader_ = EvidenceReader();
  outside_ = OutsideBoxes();
  dead_rank_was_.clear();
  gpus_per_rank_ = -1;
  oom_kills_ = count_oom_kills();
  metrics_ = MetricsTail(job_.metrics);
  durable_.look_again();
  mpirun_end_.reset();
  const Launch launch{options_.mpirun,
                      own_.scratch,
                      own_.shared,
                      options_.remote_shell,
                      {run_variable, "TRIREME_ATTEMPT", "TRIREME_HEALTH", "TRIREME_ALLOW_CHAOS",
                       "TRIREME_PAGES", "TRIREME_PAGES_TO", "TRIREME_PAGES_AGENT"}};
  Words variables = {variable(), str("TRIREME_ATTEMPT=", plan.attempt),
                     "TRIREME_HEALTH=" + health_of(paths_, plan.attempt),
                     str("TRIREME_ALLOW_CHAOS=", options_.allow_chaos ? 1 : 0)};
  for (const std::string& variable : watch_ranks(plan)) variables.push_back(variable);
  if (job_.watched)  // another program may need what trireme's do not
    for (const std::string& variable : quick_start_variables(plan)) variables.push_back(variable);
  mpirun_ = std::make_unique<Child>(
      mpirun_words(launch, plan, words_of(job_, plan)),
      ChildOptions{.environment = environment_with(variables),
                   .output = ChildOptions::Output::pipe,
                   .take = [this](std::string_view text) { take_output(text); },
                   .most_output = 0,
                   .ending_s = end_by_itself_s,
                   .ask_alone = true,
                   .family = &family_});
  others_.erase(mpirun_->id());  // the number may have been that of a command of --on-event
}

Observation Machine::observe(double seconds) {
  pollfd watched[] = {{signals_, POLLIN, 0}, {mpirun_ ? mpirun_->pipe() : -1, POLLIN, 0}};
  timespec most = {static_cast<time_t>(seconds), 0};
  most.tv_nsec = static_cast<long>((seconds - static_cast<double>(most.tv_sec)) * 1e9);
  ::ppoll(watched, 2, &most, nullptr);
  Observation seen;
  read_signals(seen);
  read_stop_file(seen);
  if (at_each_observation_) at_each_observation_();
  reap();
  seen.output = std::exchange(printed_, false);
  if (job_.watched) {
    seen.durable = durable_.newest(now());
    seen.steps = metrics_.read();
  }
  if (rank_watch_ && mpirun_runs()) {
    seen.hang = rank_watch_->look(now());
    seen.pages = rank_watch_->has_pages();
  }
  if (mpirun_end_) {
    seen.launcher_killed = mpirun_end_->signal > 0;
    seen.code = seen.launcher_killed ? 128 + mpirun_end_->signal : mpirun_end_->status;
  }
  return seen;
}

void Machine::take_output(std::string_view text) {
  printed_ = true;
  reader_.read(text);
  log_->write(text);
  if (options_.echo) terminal_.show(outside_.pass(text));
}

/// Notices the ends of what this process has started, and of orphans of mpirun.
void Machine::reap() {
  if (mpirun_)
    if (const ChildEnd* end = mpirun_->poll(); end != nullptr) mpirun_end_ = *end;
  commands_.remove_if([](Child& command) { return command.poll() != nullptr; });
  reap_orphans(family_);
}

void Machine::request_stop() {
  if (mpirun_) mpirun_->signal(SIGUSR1);
}

void Machine::end_all() {
  const auto wait_a_little = [this] {
    pollfd out = {mpirun_ ? mpirun_->pipe() : -1, POLLIN, 0};
    ::poll(&out, 1, 5);
    reap();
  };
  if (mpirun_) mpirun_->ask_to_end();  // it ends the ranks of other hosts as well
  for (const double until = now() + end_by_itself_s; mpirun_runs() && now() < until;)
    wait_a_little();
  double next_word = now() + 30;
  for (;;) {
    reap();
    const std::vector<pid_t> left = children_outside(others_, event_variable + "=" + key_);
    if (left.empty() && !mpirun_runs()) break;
    for (const pid_t id : left) ::kill(id, SIGKILL);  // children: their numbers are still theirs
    wait_a_little();
    if (now() < next_word) continue;
    next_word = now() + 30;
    log(str("waits for ", left.size(), " processes that have not ended after SIGKILL"));
  }
  constexpr int most_reads = 1000;  // of what is left in the pipe, whose writers are gone
  for (int i = 0; i < most_reads && mpirun_ && mpirun_->pipe() >= 0; ++i) mpirun_->poll();
  mpirun_.reset();
  if (options_.echo) terminal_.show(outside_.rest());
  durable_.look_again();  // what comes now decides whether the run is finished
  if (rank_watch_) {
    slow_ = rank_watch_->slow();
    gpus_per_rank_ = rank_watch_->gpus_per_rank();
    dead_rank_was_ = rank_watch_->last_place(reader_.found().dead_rank);
  }
  rank_watch_.reset();
  if (!key_.empty()) remove_private_directories(key_);
  if (attempt_ > 0)
    for (const std::string& line : keep_cores(".", began_, variable(), paths_, attempt_)) log(line);
}

std::vector<GpuSign> Machine::gpu_signs() const {
  return read_gpu_signs(health_of(paths_, attempt_), hosts_, ranks_);
}

Evidence Machine::evidence() const {
  Evidence found = reader_.found();
  if (found.out_of_memory.empty())
    found.out_of_memory = new_oom_kills(oom_kills_, count_oom_kills());
  found.gpus_per_rank = gpus_per_rank_;
  found.slow = slow_;
  found.gpu_signs = gpu_signs();
  found.dead_rank_was = dead_rank_was_;
  found.counts_kills_for_memory = hosts_.empty() && counts(oom_kills_);
  if (job_.watched) {
    found.wrong_ranks = wrong_ranks(paths_.run, attempt_);
    found.clean = newest_clean_step(paths_.run, attempt_);
  }
  return found;
}

std::unique_ptr<Pending<std::vector<std::string>>> Machine::find_unreachable() {
  const Words shell = remote_shell_of(options_.remote_shell, options_.mpirun, options_.hosts,
                                      variable_of_this_process);
  return std::make_unique<UnreachableHosts>(family_, hosts_, shell, probe_s);
}

}  // namespace trireme::supervisor
