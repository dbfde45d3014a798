// trireme run: starts mpirun and keeps a run going until it is finished.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "launch/chaos/faults.h"
#include "launch/commands.h"
#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/supervisor.h"
#include "launch/supervisor/machine/machine.h"
#include "launch/supervisor/machine/scheduler.h"
#include "runtime/core/process/child.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/text/line_clock.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

/// What the command line says.
struct RunArguments {
  Settings settings;
  MachineOptions machine;
  double quarantine_s = static_cast<double>(quarantine_window_s);
  std::string run_dir, hostfile, mpirun = "mpirun";
  bool quiet = false, requeue = false;
};

void declare(CommandLine& command, RunArguments& given) {
  Settings& settings = given.settings;
  MachineOptions& machine = given.machine;
  command.group("Where");
  command.whole("--ranks-per-node,-n", settings.ranks_per_node, at_least(1), "ranks on each host");
  command.whole("--nodes", settings.nodes, at_least(1), "hosts that train");
  command.text(
      "--hostfile", given.hostfile, "FILE",
      "hosts, a line each as for mpirun, read anew before each attempt; default: the nodes "
      "of a Slurm job, the workers of an MPIJob, or this machine");
  command.whole("--spares", settings.spares, at_least(0),
                "hosts beyond --nodes that replace lost ones");
  command.whole("--min-nodes", settings.min_nodes, at_least(1),
                "where hosts are few, so many are enough: the data parallel size falls; default: "
                "--nodes");
  command.add({"--also-layout", "OPTIONS",
               "options of PROGRAM, such as \"--tp 4 --pp 1\", for which no data parallel size of "
               "its own fits; may be given again",
               true,
               [&settings](const std::vector<std::string>& layouts) {
                 for (const std::string& each : layouts)
                   settings.also_layouts.push_back(words_in(each));
               },
               [] { return std::string(); }, true});
  command.text("--run-dir", given.run_dir, "DIR",
               "directory of the run; default: --save of PROGRAM");
  command.text("--mpirun", given.mpirun, "WORDS", "mpirun, and options for it");
  command.text("--remote-shell", machine.remote_shell, "CMD", "what starts a process on a host");
  command.text(
      "--preflight", machine.preflight, "{short,off}|CMD",
      "short: hosts that are new, or return, are measured by trireme preflight, and bad "
      "ones left out. CMD: run by the shell for each, TRIREME_HOST; another exit code than "
      "0 leaves the host out. Default: short where --nodes and --spares are more than one");
  command.add({"--on-straggler", "{report,replace}",
               "replace: a host with a rank that stays slower than others of its stage is left "
               "for a spare, once the job has saved. Default: report, in trireme status",
               false,
               [&settings](const std::vector<std::string>& words) {
                 require(words.front() == "report" || words.front() == "replace",
                         "expected report or replace");
                 settings.replace_stragglers = words.front() == "replace";
               },
               [] { return std::string("report"); }, true});
  command.flag("--grow", settings.grow,
               "with --min-nodes: stop and start on more hosts when they come back, where that "
               "gains three times what it costs");
  declare_duration(command, "--grow-interval", settings.grow_interval_s,
                   "time between two looks for such hosts");
  command.group("When to stop");
  command.whole("--max-restarts", settings.max_restarts, at_least(0), "restarts at most");
  declare_duration(command, "--hang-timeout", settings.hang_s,
                   "a job of which no rank moves for so long is restarted: in a step, where ops or "
                   "collectives that take long raise the limit; other phases have longer limits; "
                   "default: 10 s. For programs without status pages: without a step, a checkpoint "
                   "or output; default there: never");
  declare_duration(command, "--time-limit", settings.time_limit_s,
                   "then the job saves and ends; default: none");
  declare_duration(command, "--grace", settings.grace_s,
                   "time to save and end before the job is ended by force; default: three times "
                   "its longest save and two steps, at least 20 s; 10 min where none is known");
  declare_duration(command, "--wait-nodes", settings.wait_nodes_s,
                   "time to wait where too few hosts are healthy; default: none");
  declare_duration(command, "--quarantine", given.quarantine_s,
                   "time for which a host that was blamed too often is not used");
  command.flag("--requeue-self", given.requeue,
               "in a Slurm job that SIGUSR1 or --time-limit has stopped: scontrol requeue, unless "
               "RequeueExit does it");
  command.flag("--allow-chaos", machine.allow_chaos,
               "let `trireme chaos` of this user disturb the run");
  command.group("What to show");
  command.text("--on-event", machine.on_event, "CMD",
               "run by the shell at each event; TRIREME_EVENT, TRIREME_SUMMARY (a sentence), "
               "TRIREME_DETAILS (JSON) and TRIREME_RUN_DIRECTORY say which");
  command.text("--on-quarantine", machine.on_quarantine, "CMD",
               "run by the shell when a host comes into quarantine, TRIREME_HOST; it gets what "
               "--on-event gets as well");
  command.size("--log-size", machine.log_bytes, 4096, "of an attempt's log before it is rotated");
  command.flag("--quiet", given.quiet, "do not show what the job prints; it is in the log");
}

/// "--also-layout OPTIONS" as one word: OPTIONS begin with -- as well.
Words joined(int argc, char** argv) {
  Words words(argv, argv + argc);
  for (std::size_t i = 1; i + 1 < words.size(); ++i)
    if (words[i] == "--also-layout") {
      words[i] += "=" + words[i + 1];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  return words;
}

/// mpirun's "-np N" is taken out of the words. Returns what is right, or "".
std::string take_np(Words& words) {
  const auto np = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
    return word == "-np" || word == "--np";
  });
  if (np == words.end()) return "";
  const auto end = np + 1 == words.end() || np[1].starts_with('-') ? np + 1 : np + 2;
  const std::string number = end == np + 1 ? "N" : np[1];
  std::string problem = *np + ": use -n " + number + ", ranks on each host";
  words.erase(np, end);
  return problem;
}

bool asks_for_text(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help" || word == "--version" || word == "--help-markdown";
  });
}

void check_min_nodes(const RunArguments& given, const CommandLine& command, Problems& problems) {
  const Settings& settings = given.settings;
  if (settings.min_nodes > settings.nodes)
    problems.add("--min-nodes ", settings.min_nodes, " are more than --nodes ", settings.nodes);
  if (settings.min_nodes == 0 || settings.min_nodes == settings.nodes)
    for (const char* name : {"--also-layout", "--grow"})
      if (command.given(name))
        problems.add(name, " has no meaning without fewer --min-nodes than --nodes");
  if (command.given("--grow-interval") && !settings.grow)
    problems.add("--grow-interval has no meaning without --grow");
  for (const Words& options : settings.also_layouts)
    problems.collect([&] { check_layout_options(options); });
}

void check_slots(const RunArguments& given, const std::vector<Host>& hosts, Problems& problems) {
  for (const Host& host : hosts)
    if (host.slots < given.settings.ranks_per_node)
      problems.add("--ranks-per-node ", given.settings.ranks_per_node, ": host ", host.name, " of ",
                   given.machine.hosts.name, " has ", host.slots,
                   host.slots == 1 ? " slot" : " slots");
}

void check_hosts(RunArguments& given, const CommandLine& command, Problems& problems) {
  const Settings& settings = given.settings;
  const Index wanted = settings.nodes + settings.spares;
  HostSource& source = given.machine.hosts;
  std::vector<Host> hosts;
  const std::size_t before = problems.all().size();
  problems.collect([&] {
    source =
        find_hosts({given.hostfile, given.machine.mpirun, wanted > 1}, variable_of_this_process);
    hosts = read_hosts(source, settings.ranks_per_node);
  });
  if (problems.all().size() > before) return;
  if (source.kind == HostSource::Kind::this_machine) {
    if (settings.nodes > 1)
      problems.add("--nodes ", settings.nodes,
                   " needs --hostfile, or a job of several nodes of a scheduler");
    for (const char* name :
         {"--spares", "--remote-shell", "--wait-nodes", "--preflight", "--on-straggler",
          "--min-nodes", "--also-layout", "--grow", "--grow-interval"})
      if (settings.nodes == 1 && command.given(name))
        problems.add(name, " has no meaning on one machine; give --hostfile");
    return;
  }
  check_slots(given, hosts, problems);
  check_min_nodes(given, command, problems);
  if (!command.given("--preflight") && wanted > 1) given.machine.preflight = "short";
  // Workers of an MPIJob may still start: the supervisor waits for them.
  if (source.kind == HostSource::Kind::discovery) return;
  const auto found = static_cast<Index>(hosts.size());
  if (found < std::min(settings.min_nodes, settings.nodes))
    problems.add("--min-nodes ", settings.min_nodes, ": ", source.name, " has ", found, " hosts");
  else if (settings.min_nodes == 0 && found < wanted)
    problems.add("--nodes ", settings.nodes, " and --spares ", settings.spares, " need ", wanted,
                 " hosts, but ", source.name, " has ", found);
}

std::unique_ptr<Job> check(RunArguments& given, const CommandLine& command, const Words& program,
                           Problems& problems) {
  given.machine.mpirun = words_in(given.mpirun);
  given.machine.slots = given.settings.ranks_per_node;
  given.machine.echo = !given.quiet;
  given.machine.hang_s = given.settings.hang_s;
  check_hosts(given, command, problems);
  if (given.machine.mpirun.empty() || !is_executable(given.machine.mpirun.front()))
    problems.add("--mpirun '", given.mpirun, "': there is no such program");
  if (program.empty()) {
    problems.add(
        "PROGRAM is missing; it follows --: trireme run [options] -- train_gpt --save DIR ...");
    return nullptr;
  }
  if (!is_executable(program.front())) problems.add(program.front(), ": there is no such program");
  std::unique_ptr<Job> job;
  problems.collect([&] {
    job = std::make_unique<Job>(make_job(program, given.run_dir));
    check_run(*job, read_history(Paths(job->run)));
  });
  if (problems.empty()) make_run_directory(*job, problems);
  return job;
}

std::string slurm_job() { return variable_of_this_process("SLURM_JOB_ID"); }

void check_requeue(const RunArguments& given, Problems& problems) {
  if (!given.requeue) return;
  if (slurm_job().empty())
    problems.add("--requeue-self has no meaning outside of a Slurm job: SLURM_JOB_ID is not set");
  else if (!is_executable("scontrol"))
    problems.add("--requeue-self needs scontrol, and there is no such program");
}

/// Returns the exit code. `requeue`: whether a Slurm job is to be queued again.
int supervise(RunArguments& given, const Job& job, bool& requeue) {
  Settings& settings = given.settings;
  settings.watched = job.watched;
  settings.auto_saves = job.watched && job.auto_saves;
  settings.snapshots = job.watched && job.snapshots;
  settings.save_seconds = std::atof(job.save_seconds.c_str());
  settings.has_hosts = given.machine.hosts.kind != HostSource::Kind::this_machine;
  settings.program = job.name();
  if (job.watched) settings.metrics = std::filesystem::absolute(job.metrics).string();
  settings.ckpt_step = option_of(job.words, "--ckpt-step");
  settings.quarantine_s = std::max<Index>(1, static_cast<Index>(given.quarantine_s));
  settings.pid = Index{::getpid()};
  settings.host = host_name();
  Machine machine(job, given.machine);
  if (given.machine.hosts.kind == HostSource::Kind::slurm &&
      !job_has_no_kill(variable_of_this_process))
    machine.log("warning: the script of " + given.machine.hosts.name +
                " has no --no-kill: Slurm ends the job when it loses a node");
  if (!job.watched)
    machine.log(job.name() + " has no --save: it is supervised by its exit code only");
  else if (!job.saves_between)
    machine.log("warning: " + job.name() +
                " has no --save-interval, so it saves at its end only, and a failure costs all its "
                "steps; --save-interval auto chooses one");
  settings.run = new_run_id(machine.date(), settings.pid);
  History history = machine.take_over(settings.run);
  remove_offer(machine.paths());  // of a supervisor that was killed
  if (given.machine.allow_chaos) accept_faults(machine, given.machine.hang_s, job.compares);
  const int code = Supervisor(machine, machine.files(), settings, std::move(history)).run();
  requeue = given.requeue && code == code::stopped && !machine.stopped_by_user();
  return code;
}

int run(int argc, char** argv) {
  int own = 0;
  while (own < argc && std::string(argv[own]) != "--") ++own;
  const Words program(argv + std::min(own + 1, argc), argv + argc);
  RunArguments given;
  CommandLine command("trireme run",
                      "trireme run [options] -- PROGRAM ...: starts mpirun with PROGRAM, watches "
                      "it, and starts it again from the newest checkpoint when it fails. Exit "
                      "code 0: finished; 64: the configuration cannot run; 69: too few healthy "
                      "hosts; 70: restarting does not help; 75: stopped and saved, start it "
                      "again; 1: another failure.");
  declare(command, given);
  std::unique_ptr<Job> job;
  int code = 0;
  Words words = joined(own, argv);
  if (own == argc && argc > 1 && !asks_for_text(words)) {
    // Options of PROGRAM would be taken for those of `trireme run`.
    std::cerr << "trireme: -- is missing before PROGRAM: trireme run [options] -- PROGRAM ..., "
                 "such as trireme run -n 2 -- train_gpt --save DIR ...\n";
    return static_cast<int>(ExitCode::configuration);
  }
  const std::string np = take_np(words);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  const int checked = parse_and_run(
      command, static_cast<int>(pointers.size()), pointers.data(),
      [&](Problems& problems) {
        if (!np.empty()) problems.add(np);
        job = check(given, command, program, problems);
        check_requeue(given, problems);
      },
      [&] {
        bool requeue = false;
        code = supervise(given, *job, requeue);
        if (requeue)  // nothing is held any more: Slurm may end this process at once
          std::cerr << LineClock().stamp()
                    << " trireme run: " << requeue_slurm_job(slurm_job(), code) << std::endl;
        return ExitCode::success;
      });
  return checked != 0 ? checked : code;
}

}  // namespace

void declare_duration(CommandLine& command, const std::string& name, double& value,
                      const std::string& help) {
  command.add(
      {name, "TIME", help, false,
       [&value](const std::vector<std::string>& given) { value = parse_duration(given.front()); },
       [&value] { return value > 0 ? fmt::format("{:g}", value) : ""; }, true});
}

std::vector<Subcommand> run_commands() {
  return {{{"run"}, "[options] -- PROGRAM ...", "train, and recover from failures", run}};
}

}  // namespace trireme::supervisor
