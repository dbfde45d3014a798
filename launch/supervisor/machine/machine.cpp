#include "launch/supervisor/machine/machine.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/layouts.h"
#include "launch/supervisor/machine/host_preflight.h"
#include "launch/supervisor/machine/post_mortem.h"
#include "launch/supervisor/machine/processes.h"
#include "launch/supervisor/machine/scheduler.h"
#include "launch/supervisor/records/ledger.h"
#include "runtime/core/process/this_process.h"
#include "runtime/core/require_call.h"
#include "runtime/core/seconds_since.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

constexpr double lease_check_s = 1, check_layout_s = 120;
constexpr std::size_t longest_summary = 1000;
constexpr std::size_t most_commands = 32;  // of events at a time: a mail program may hang

/// Blocks them in this thread and in those that it starts. Under nohup SIGHUP stays ignored.
int open_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1}) sigaddset(&watched, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&watched, SIGHUP);
  require(::sigprocmask(SIG_BLOCK, &watched, nullptr) == 0, "signals cannot be blocked");
  ::signal(SIGPIPE, SIG_IGN);  // a reader of our output that ends costs lines, not the job
  const int signals = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  require_call(signals >= 0, "signalfd");
  return signals;
}

class LayoutAnswer : public Pending<std::vector<Layout>> {
 public:
  LayoutAnswer(std::set<pid_t>& family, const Words& words) {
    try {
      program_ = std::make_unique<Child>(words, ChildOptions{.output = ChildOptions::Output::pipe,
                                                             .limit_s = check_layout_s,
                                                             .family = &family});
    } catch (const Error&) {  // no program has that name: there is no answer
    }
  }
  std::optional<std::vector<Layout>> poll() override {
    if (program_ == nullptr) return std::vector<Layout>();
    const ChildEnd* end = program_->poll();
    return end != nullptr ? std::optional(parse_layouts(end->output)) : std::nullopt;
  }

 private:
  std::unique_ptr<Child> program_;
};

}  // namespace

Machine::Machine(Job job, MachineOptions options)
    : job_(std::move(job)),
      options_(std::move(options)),
      paths_(job_.run),
      signals_(open_signals()),
      metrics_(""),
      durable_(paths_.run) {
  others_.insert(::getsid(0));
  for (const pid_t child : children_outside(others_)) others_.insert({child, ::getsid(child)});
  require_call(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
  lease_ = take_run(paths_, [this](const std::string& line) { log(line); });
  files_ = std::make_unique<JobFiles>(job_, paths_);
  remove_file(paths_.stop);  // it was for the supervisor before
}

Machine::~Machine() {
  try {
    end_all();
    remove_file(paths_.stop);
  } catch (const std::exception& error) {
    log(error.what());
  }
  ::close(signals_);
}

History Machine::take_over(const std::string& new_run_id) {
  History history = read_history(paths_);
  const std::string run_id = history.run.empty() ? new_run_id : history.run;
  key_ = key_of(paths_, run_id);
  try {
    keep_place(paths_, run_id);
  } catch (const Error& error) {
    log(str("warning: the run will lose its snapshots where it is renamed: ", error.what()));
  }
  shown_ = node_states(history, date());
  const int ended = end_all_with(variable());
  if (ended > 0) log(str("ended ", ended, " processes of an attempt whose supervisor died"));
  remove_private_directories(key_);
  return history;
}

double Machine::now() const { return steady_seconds(); }

Index Machine::date() const { return date_now(); }

std::string Machine::loss_of_run() const {
  if (now() - mine_checked_ < lease_check_s) return "";
  mine_checked_ = now();
  if (lease_->held()) return "";
  const std::optional<std::string> other = supervisor_of(paths_);
  return other ? *other + " has taken over this run"
               : paths_.folder + " was moved or removed, or the lock in it";
}

std::vector<Host> Machine::hosts() const { return read_hosts(options_.hosts, options_.slots); }

std::unique_ptr<Pending<std::vector<Layout>>> Machine::check_layouts(
    const std::vector<std::string>& options, const std::vector<Index>& ranks) {
  AttemptPlan plan;
  plan.options = options;
  Words words = words_of(job_, plan);
  std::string counts;
  for (const Index count : ranks) counts += str(counts.empty() ? "" : ",", count);
  words.insert(words.end(), {"--check-layout", counts});
  return std::make_unique<LayoutAnswer>(family_, words);
}

void Machine::show_nodes(const std::vector<NodeState>& states,
                         const std::vector<UnfitHost>& unfit) {
  shown_ = states;
  Json nodes = to_json(states);
  add_unfit(nodes, unfit);
  add_figures(nodes, read_preflight(paths_));
  try {
    replace_file(paths_.nodes, to_text(nodes) + "\n");
  } catch (const Error& error) {  // a full disk, for example: the ledger has all but the figures
    log(error.what());
  }
}

void Machine::log(const std::string& line) { terminal_.log(printable(line)); }

void Machine::notify(const std::string& event, const std::string& line, const Json& details) {
  log(line);
  Words variables = {"TRIREME_EVENT=" + event, "TRIREME_SUMMARY=" + one_line(line, longest_summary),
                     "TRIREME_DETAILS=" + to_text(details), "TRIREME_RUN_DIRECTORY=" + paths_.run};
  start_command("--on-event", options_.on_event, variables);
  const Json* found = event == "quarantine" ? details.find("host") : nullptr;
  const auto* host = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  if (host == nullptr) return;
  variables.push_back("TRIREME_HOST=" + *host);
  start_command("--on-quarantine", options_.on_quarantine, variables);
}

/// What it starts may outlive attempts, and this process.
void Machine::start_command(const std::string& option, const std::string& command,
                            Words variables) {
  if (command.empty()) return;
  if (commands_.size() >= most_commands) {
    if (!std::exchange(said_too_many_, true))
      log(str(option, ": ", most_commands,
              " commands of earlier events still run; no other is started before one ends"));
    return;
  }
  said_too_many_ = false;
  variables.push_back(event_variable + "=" + key_);
  try {
    commands_.emplace_back(
        Words{"/bin/sh", "-c", command},
        ChildOptions{
            .environment = environment_with(variables), .outlives = true, .family = &family_});
    others_.insert(commands_.back().id());
  } catch (const Error& error) {
    log(option + ": " + error.what());
  }
}

// One attempt: mpirun is started, watched and ended, with every process that it leaves.

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
    seen.hang = rank_watch_->observe(now());
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

// How the status pages of an attempt reach this process.

/// Begins to watch the ranks of an attempt. Returns the variables that they get for it.
Words Machine::watch_ranks(const AttemptPlan& plan) {
  const std::string pages = own_.pages();
  RankWatch::Options options{pages, paths_.attempt(plan.attempt), static_cast<int>(plan.ranks),
                             options_.hang_s};
  if (plan.hosts.empty()) {
    rank_watch_ = std::make_unique<RankWatch>(options);
    return {"TRIREME_PAGES=" + pages, "TRIREME_PAGES_TO=", "TRIREME_PAGES_AGENT="};
  }
  options.pages = own_.copies();
  options.hosts = plan.hosts;
  options.ranks_of_each =
      plan.slots > 0 ? plan.slots : plan.ranks / static_cast<Index>(plan.hosts.size());
  std::string address;
  try {
    auto collector = std::make_unique<PageCollector>(options.pages, options.ranks);
    address = observe::to_text(collector->address());
    rank_watch_ = std::make_unique<RankWatch>(options, std::move(collector));
  } catch (const Error& error) {
    rank_watch_.reset();
    log(str("warning: no status pages of other machines: ", error.what()));
  }
  // Without an address the first rank of each host still ends what earlier attempts have left.
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return {"TRIREME_PAGES=" + pages, "TRIREME_PAGES_TO=" + address,
          "TRIREME_PAGES_AGENT=" + self.string()};
}

std::vector<SlowHost> Machine::slow_hosts() const {
  return rank_watch_ ? rank_watch_->slow_hosts() : std::vector<SlowHost>();
}

// What reaches the supervisor from outside: signals, and files that commands write into the run.

namespace {

/// Empty: it cannot be read now, as on a network file system while it is replaced.
std::string read_request(const std::string& path) {
  constexpr Index most_bytes = Index{1} << 12;
  try {
    return read_whole(path, most_bytes);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void Machine::read_signals(Observation& seen) {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    const auto signal = static_cast<int>(info.ssi_signo);
    ended_by_signal_ =
        ended_by_signal_ || signal == SIGHUP || signal == SIGTERM || signal == SIGINT;
    if (signal == SIGHUP) seen.signals.push_back(SIGTERM);  // the terminal is gone
    if (signal != SIGHUP && signal != SIGCHLD) seen.signals.push_back(signal);
  }
}

void Machine::read_stop_file(Observation& seen) {
  if (now_seen_ || ::access(paths_.stop.c_str(), F_OK) != 0) return;
  if (!stop_seen_) seen.signals.push_back(SIGUSR1);
  stop_seen_ = true;
  if (!read_request(paths_.stop).starts_with("now")) return;
  now_seen_ = true;
  seen.signals.push_back(SIGKILL);
}

Scene Machine::scene() const {
  return {mpirun_runs() ? mpirun_->id() : -1, attempt_, date(), own_.pages(), hosts_,
          hosts_.empty() ? 0 : spare_hosts()};
}

/// Hosts at hand that the attempt does not use, and that are not in quarantine.
Index Machine::spare_hosts() const {
  Index spares = 0;
  for (const Host& host : hosts()) {
    const auto is_used = [&](const Host& used) { return used.name == host.name; };
    const auto is_out = [&](const NodeState& state) {
      return state.host == host.name && state.quarantined();
    };
    if (std::none_of(hosts_.begin(), hosts_.end(), is_used) &&
        std::none_of(shown_.begin(), shown_.end(), is_out))
      ++spares;
  }
  return spares;
}

}  // namespace trireme::supervisor
