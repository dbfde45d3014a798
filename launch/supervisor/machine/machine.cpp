#include "launch/supervisor/machine/machine.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/ask_program.h"
#include "launch/supervisor/machine/preflight_figures.h"
#include "launch/supervisor/machine/processes.h"
#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/steps.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr double end_by_itself_s = 2;  // mpirun, after SIGTERM
constexpr double lease_check_s = 1, durable_check_s = 2, check_layout_s = 120;
const std::string run_variable = "TRIREME_RUN_KEY";

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Blocks them in this thread and in those that it starts.
int open_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&watched, signal);
  require(::sigprocmask(SIG_BLOCK, &watched, nullptr) == 0, "signals cannot be blocked");
  ::signal(SIGPIPE, SIG_IGN);  // a reader of our output that ends costs lines, not the job
  const int signals = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  require(signals >= 0, "signalfd: ", std::strerror(errno));
  return signals;
}

/// Where ranks write signs of GPUs (runtime/job/gpu_health.h).
std::string health_of(const Paths& paths, Index attempt) {
  return paths.attempt(attempt) + "/gpu_health";
}

std::string read_small(const std::string& path) {
  constexpr Index most_bytes = Index{16} << 20;
  return read_whole(path, most_bytes);
}

}  // namespace

Machine::Machine(Job job, MachineOptions options)
    : job_(std::move(job)),
      options_(std::move(options)),
      paths_(job_.run),
      signals_(open_signals()),
      metrics_("") {
  others_.insert(::getsid(0));
  for (const pid_t child : children_outside(others_)) others_.insert({child, ::getsid(child)});
  require(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl: ", std::strerror(errno));
  lease_ = take_run(paths_);
  ledger_ = std::make_unique<LedgerFile>(paths_.ledger);
  remove_file(paths_.stop);  // it was for the supervisor before
}

Machine::~Machine() {
  try {
    end_all();
    remove_file(paths_.stop);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trireme run: %s\n", error.what());
  }
  ::close(signals_);
}

History Machine::take_over(const std::string& new_run_id) {
  History history = read_history(paths_);
  key_ = key_of(paths_, history.run.empty() ? new_run_id : history.run);
  const int ended = end_all_with(run_variable + "=" + key_);
  if (ended > 0) say(str("ended ", ended, " processes of an attempt whose supervisor died"));
  remove_private_directories(key_);
  remove_offer(paths_);
  if (options_.allow_chaos)
    faults_ = std::make_unique<FaultDesk>(paths_, options_.hang_s, run_variable + "=" + key_);
  return history;
}

double Machine::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Index Machine::date() const { return Index{std::time(nullptr)}; }

bool Machine::is_mine() const {
  if (now() - mine_checked_ < lease_check_s) return true;
  mine_checked_ = now();
  return lease_->held();
}

std::vector<Host> Machine::hosts() const { return read_hosts(options_.hosts, options_.slots); }

std::vector<Index> Machine::durable_steps() const {
  return job_.watched ? supervisor::durable_steps(paths_.run, 2) : std::vector<Index>();
}

Index Machine::iterations() const { return job_.watched ? iterations_of(job_) : -1; }

bool Machine::training_is_finished() const {
  return job_.watched && supervisor::training_is_finished(job_);
}

std::vector<Layout> Machine::check_layouts(const std::vector<std::string>& options,
                                           const std::vector<Index>& ranks) {
  AttemptPlan plan;
  plan.options = options;
  Words words = words_of(job_, plan);
  std::string counts;
  for (const Index count : ranks) counts += str(counts.empty() ? "" : ",", count);
  words.insert(words.end(), {"--check-layout", counts});
  return parse_layouts(ask_program(words, check_layout_s).text);
}

std::vector<std::string> Machine::released_hosts() {
  std::vector<std::string> hosts;
  for (const std::string& name : list_directory(paths_.folder))
    if (name.starts_with(release_prefix) && !name.ends_with(".new")) {
      hosts.push_back(name.substr(std::strlen(release_prefix)));
      remove_file(paths_.folder + "/" + name);
    }
  return hosts;
}

void Machine::append(const Json& line) { ledger_->append(line); }

void Machine::show_nodes(const std::vector<NodeState>& states) {
  Json nodes = to_json(states);
  add_figures(nodes, read_preflight(paths_));
  replace_file(paths_.nodes, to_text(nodes) + "\n");
}

void Machine::say(const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme run: %s\n", line.c_str());
}

void Machine::notify(const std::string& event, const Json& details) {
  if (options_.on_event.empty()) return;
  try {
    others_.insert(start_program({"/bin/sh", "-c", options_.on_event},
                                 {"TRIREME_EVENT=" + event, "TRIREME_DETAILS=" + to_text(details),
                                  "TRIREME_RUN_DIRECTORY=" + paths_.run},
                                 -1, false));
  } catch (const Error& error) {
    say(str("--on-event: ", error.what()));
  }
}

Index Machine::start(const AttemptPlan& plan) {
  attempt_ = plan.attempt;
  began_ = date();
  forget_attempts(paths_, plan.attempt);
  fs::create_directories(health_of(paths_, plan.attempt));
  hosts_ = plan.hosts;
  ranks_ = plan.slots > 0 ? plan.slots * std::ssize(plan.hosts) : plan.ranks;
  remove_private_directories(key_);
  const PrivateDirectories own = make_private_directories(key_, plan.attempt);
  log_ =
      std::make_unique<OutputLog>(paths_.attempt(plan.attempt) + "/output.log", options_.log_bytes);
  reader_ = EvidenceReader();
  oom_kills_ = count_oom_kills();
  metrics_ = MetricsTail(job_.metrics);
  durable_changed_ns_ = -1;
  status_.reset();
  reported_ = false;
  if (plan.hosts.empty())
    rank_watch_ = std::make_unique<RankWatch>(
        RankWatch::Options{pages_directory(key_, plan.attempt), paths_.attempt(plan.attempt),
                           static_cast<int>(plan.ranks), options_.hang_s});

  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "pipe: ", std::strerror(errno));
  pipe_ = ends[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  const Launch launch{options_.mpirun,
                      own.scratch,
                      own.shared,
                      options_.remote_shell,
                      {run_variable, "TRIREME_ATTEMPT", "TRIREME_HEALTH"}};
  try {
    Variables variables = {run_variable + "=" + key_, str("TRIREME_ATTEMPT=", plan.attempt),
                           "TRIREME_HEALTH=" + health_of(paths_, plan.attempt)};
    // On other hosts nothing would remove the pages.
    variables.push_back("TRIREME_PAGES=" +
                        (plan.hosts.empty() ? pages_directory(key_, plan.attempt) : ""));
    if (job_.watched)  // another program may need what trireme's do not
      for (const std::string& variable : quick_start_variables(plan)) variables.push_back(variable);
    mpirun_ =
        start_program(mpirun_words(launch, plan, words_of(job_, plan)), variables, ends[1], true);
  } catch (...) {
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  others_.erase(mpirun_);  // the number may have been that of a command of --on-event
  return Index{mpirun_};
}

Sight Machine::look(double seconds) {
  pollfd watched[2] = {{signals_, POLLIN, 0}, {pipe_, POLLIN, 0}};
  timespec most = {static_cast<time_t>(seconds), 0};
  most.tv_nsec = static_cast<long>((seconds - static_cast<double>(most.tv_sec)) * 1e9);
  ::ppoll(watched, pipe_ < 0 ? 1 : 2, &most, nullptr);
  Sight sight;
  read_signals(sight);
  read_stop_file(sight);
  if (faults_ != nullptr) take_fault();
  read_output();
  reap();
  sight.output = std::exchange(printed_, false);
  if (job_.watched) {
    sight.durable = newest_durable();
    sight.steps = metrics_.read();
  }
  if (rank_watch_ && mpirun_ > 0) {
    sight.hang = rank_watch_->look(now());
    sight.pages = rank_watch_->has_pages();
  }
  if (status_ && !reported_) {
    reported_ = true;
    sight.code = exit_code_of(*status_);
    sight.launcher_killed = WIFSIGNALED(*status_);
  }
  return sight;
}

void Machine::read_signals(Sight& sight) {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    const auto signal = static_cast<int>(info.ssi_signo);
    ended_by_signal_ =
        ended_by_signal_ || signal == SIGHUP || signal == SIGTERM || signal == SIGINT;
    if (signal == SIGHUP) sight.signals.push_back(SIGTERM);  // the terminal is gone
    if (signal != SIGHUP && signal != SIGCHLD) sight.signals.push_back(signal);
  }
}

void Machine::read_stop_file(Sight& sight) {
  if (now_seen_ || ::access(paths_.stop.c_str(), F_OK) != 0) return;
  const std::string text = read_small(paths_.stop);
  if (!stop_seen_) sight.signals.push_back(SIGUSR1);
  stop_seen_ = true;
  if (!text.starts_with("now")) return;
  now_seen_ = true;
  sight.signals.push_back(SIGKILL);
}

void Machine::take_fault() {
  try {
    const std::optional<FaultOrder> order = faults_->read(mpirun_, attempt_, date());
    if (!order) return;
    append(to_json(order->fault));  // before anything is done
    say(str("chaos: ", order->fault.kind, ": ", order->fault.victim));
    faults_->strike(*order);
  } catch (const Error& error) {
    say(str("chaos: refused: ", error.what()));
  }
}

void Machine::read_output() {
  char buffer[1 << 16];
  constexpr int most_reads = 16;  // then other things have their turn
  for (int i = 0; i < most_reads && pipe_ >= 0; ++i) {
    const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;
    if (bytes == 0) {
      ::close(pipe_);
      pipe_ = -1;
      return;
    }
    const std::string_view text(buffer, static_cast<std::size_t>(bytes));
    printed_ = true;
    reader_.read(text);
    log_->write(text);
    if (options_.echo) echo(text);
  }
}

/// A terminal or pipe that takes nothing for a second loses lines, which the log has.
void Machine::echo(std::string_view text) const {
  constexpr std::size_t never_blocks = 4096;  // PIPE_BUF
  constexpr int most_ms = 1000;
  while (!text.empty()) {
    pollfd out = {STDOUT_FILENO, POLLOUT, 0};
    if (::poll(&out, 1, most_ms) != 1 || (out.revents & POLLOUT) == 0) return;
    const ssize_t written =
        ::write(STDOUT_FILENO, text.data(), std::min(text.size(), never_blocks));
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Asks for the status of every child that has ended, orphans of mpirun among them.
void Machine::reap() {
  int status = 0;
  for (pid_t id; (id = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (id == mpirun_) {
      status_ = status;
      mpirun_ = -1;
    }
}

Index Machine::newest_durable() {
  struct stat info;
  if (::stat(paths_.run.c_str(), &info) != 0) return durable_;
  const Index changed_ns = Index{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  // A commit renames in the directory. Some network file systems show that late.
  if (changed_ns == durable_changed_ns_ && now() - durable_checked_ < durable_check_s)
    return durable_;
  durable_changed_ns_ = changed_ns;
  durable_checked_ = now();
  const std::vector<CommittedStep> steps = list_steps(paths_.run);
  if (!steps.empty() && steps.front().step == durable_) return durable_;
  const std::vector<Index> durable = supervisor::durable_steps(paths_.run, 1);
  durable_ = durable.empty() ? 0 : durable.front();
  return durable_;
}

void Machine::ask_to_stop() {
  if (mpirun_ > 0) ::kill(mpirun_, SIGUSR1);
}

void Machine::end_all() {
  const auto wait_a_little = [this] {
    pollfd out = {pipe_, POLLIN, 0};
    ::poll(&out, pipe_ < 0 ? 0 : 1, 5);
    read_output();  // mpirun may wait for space in the pipe
    reap();
  };
  if (mpirun_ > 0) {
    ::kill(mpirun_, SIGTERM);  // it ends the ranks of other hosts as well
    const double until = now() + end_by_itself_s;
    while (mpirun_ > 0 && now() < until) wait_a_little();
    if (mpirun_ > 0) ::kill(mpirun_, SIGKILL);
  }
  double next_word = now() + 30;
  for (;;) {
    reap();
    const std::vector<pid_t> left = children_outside(others_);
    if (left.empty() && mpirun_ < 0) break;
    for (const pid_t id : left) ::kill(id, SIGKILL);  // children: their numbers are still theirs
    wait_a_little();
    if (now() < next_word) continue;
    next_word = now() + 30;
    say(str("waits for ", left.size(), " processes that have not ended after SIGKILL"));
  }
  constexpr int most_reads = 1000;  // of what is left in the pipe, whose writers are gone
  for (int i = 0; i < most_reads && pipe_ >= 0; ++i) read_output();
  if (pipe_ >= 0) ::close(pipe_);
  pipe_ = -1;
  if (rank_watch_) slow_ = rank_watch_->slow();
  rank_watch_.reset();
  if (!key_.empty()) remove_private_directories(key_);
  if (attempt_ > 0) keep_cores(".", began_, paths_, attempt_);
}

std::string Machine::log_of(Index attempt) const { return paths_.attempt(attempt) + "/output.log"; }

std::vector<GpuSign> Machine::gpu_signs() const {
  return read_gpu_signs(health_of(paths_, attempt_), hosts_, ranks_);
}

Evidence Machine::evidence() const {
  Evidence found = reader_.found();
  if (found.out_of_memory.empty())
    found.out_of_memory = new_oom_kills(oom_kills_, count_oom_kills());
  const Index sharing = std::atoll(option_of(job_.words, "--ranks-per-gpu").c_str());
  if (sharing > 1 && found.gpus_per_rank > 0) found.gpus_per_rank /= static_cast<double>(sharing);
  found.slow = slow_;
  if (job_.watched) found.wrong_ranks = wrong_ranks(paths_.run, attempt_);
  return found;
}

}  // namespace trireme::supervisor
