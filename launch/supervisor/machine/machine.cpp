#include "launch/supervisor/machine/machine.h"

#include <csignal>
#include <utility>

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/layouts.h"
#include "launch/supervisor/machine/clock.h"
#include "launch/supervisor/machine/preflight_figures.h"
#include "launch/supervisor/machine/processes.h"
#include "runtime/core/process/end_signals.h"
#include "runtime/core/require_call.h"
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

void Machine::log(const std::string& line) { terminal_.say(printable(line)); }

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

}  // namespace trireme::supervisor
