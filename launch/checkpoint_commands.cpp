// trireme checkpoint: lists, shows, verifies, compares, exports and prunes checkpoints. Exit code
// 0: all is well (diff: equal), 1: something is not, 64: the command was wrong, or names no
// checkpoint.
#include <chrono>
#include <iostream>
#include <limits>

#include "launch/commands.h"
#include "launch/step_arguments.h"
#include "runtime/core/text/one_line.h"
#include "runtime/interop/export.h"
#include "runtime/options/check_options.h"
#include "runtime/store/lease/lease.h"

namespace trireme {
namespace {

constexpr const char* directory_help = "directory of a run (--save), or of one step";

Index now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

/// How results are printed: as text or as one line of JSON.
class Output {
 public:
  void declare(CommandLine& command) {
    command.flag("--json", json_, "print one line of JSON instead of text");
  }
  bool is_json() const { return json_; }
  void print(const Json& json) const { std::cout << to_text(json) << std::endl; }
  template <class... Parts>
  void print(const Parts&... parts) const {
    if (json_)
      print(to_json(parts...));
    else
      std::cout << printable(to_text(parts...)) << std::flush;
  }

 private:
  bool json_ = false;
};

ExitCode success_if(bool well) { return well ? ExitCode::success : ExitCode::failure; }

int list(int argc, char** argv) {
  std::string directory;
  Output output;
  CommandLine command("trireme checkpoint list",
                      "Lists the steps that a run has saved, whether each is intact (its manifest, "
                      "and the sizes of its files), what unfinished saves left behind, and the "
                      "job that writes there now.");
  command.positional("DIR", directory, "directory of a run (--save)");
  output.declare(command);
  RunSummary run;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) { open_input(problems, [&] { run = summarize_run(directory); }); },
      [&] {
        output.print(run, now());
        return success_if(run.holds());
      });
}

int show(int argc, char** argv) {
  std::string directory;
  Index step = -1;
  Output output;
  CommandLine command("trireme checkpoint show",
                      "Prints what the manifest of a step says: tensors, totals, layout, identity, "
                      "positions, versions, options, files.");
  command.positional("DIR", directory, directory_help);
  command.whole("--step", step, at_least(0), "step to show; default: the newest");
  output.declare(command);
  OpenedStep opened;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        open_input(problems, [&] { opened = open_step(find_steps(directory, step).front().path); });
      },
      [&] {
        output.print(opened, now());
        return ExitCode::success;
      });
}

VerifiedStep verify(const CommittedStep& step, int threads) {
  Progress progress(step.path);
  return {step, step_problems(step.path, threads,
                              [&](Index done, Index total) { progress.show(done, total); })};
}

int verify(int argc, char** argv) {
  std::string directory;
  Index step = -1, threads = default_threads();
  Output output;
  CommandLine command("trireme checkpoint verify",
                      "Reads every byte of every file and compares it with the manifest, then the "
                      "HDF5 structure of each shard. Exit code 0 only if everything is intact.");
  command.positional("DIR", directory, directory_help);
  command.whole("--step", step, at_least(0), "verify this step only; default: all");
  declare_threads(command, threads);
  output.declare(command);
  std::vector<CommittedStep> named;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        open_input(problems, [&] { named = find_steps(directory, step); });
      },
      [&] {
        Json::Array steps;
        bool holds = true;
        for (const CommittedStep& each : named) {
          const VerifiedStep verified = verify(each, static_cast<int>(threads));
          holds = holds && verified.problems.empty();
          if (output.is_json())
            steps.push_back(to_json(verified));
          else
            output.print(verified);
        }
        if (output.is_json())
          output.print(Json(Json::Object{{"steps", std::move(steps)}, {"holds", holds}}));
        return success_if(holds);
      });
}

int diff(int argc, char** argv) {
  std::string a, b;
  Index step_a = -1, step_b = -1, threads = default_threads();
  DiffOptions options;
  Output output;
  bool parameters_only = false;
  CommandLine command("trireme checkpoint diff",
                      "Compares two steps tensor by tensor, whatever layouts wrote them: names, "
                      "shapes, dtypes, then contents bit by bit, or within --tolerance. Exit code "
                      "0 if the tensors are equal, 1 if not; identity, options, versions and "
                      "positions that differ are shown, but do not count.");
  command.positional("A", a, "directory of a step, of a run (its newest step), or DIR:STEP");
  command.positional("B", b, "the other step, named in one of the same ways");
  command.whole("--step-a", step_a, at_least(0), "step of A; default: the newest");
  command.whole("--step-b", step_b, at_least(0), "step of B; default: the newest");
  command.flag("--parameters-only", parameters_only,
               "compare parameters only, not the state of the optimizer and counters");
  command.real(
      "--tolerance", options.tolerance, {0, std::numeric_limits<double>::infinity(), true, false},
      "elements a and b count as equal when |a - b| <= X * max(1, |a|, |b|), such as 1e-6; "
      "whole numbers must be equal; default bit by bit");
  declare_threads(command, threads);
  output.declare(command);
  OpenedStep left, right;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        open_input(problems, [&] {
          left = step_at(a, step_a);
          right = step_at(b, step_b);
        });
      },
      [&] {
        options.threads = static_cast<int>(threads);
        if (parameters_only) options.scope = DiffOptions::Scope::parameters;
        const StepDiff found = diff_steps(left, right, options);
        output.print(found, left, right);
        return success_if(found.beyond() == 0);
      });
}

int export_file(int argc, char** argv) {
  std::string run, output;
  Index threads = default_threads();
  interop::ExportOptions options;
  CommandLine command("trireme checkpoint export",
                      "Writes the parameters of a step, of any model, as one safetensors file with "
                      "their logical names. The file appears whole, or not at all.");
  command.positional("RUN", run, "directory of a run (its newest step), RUN:STEP, or of a step");
  command.text("--output", output, "FILE", "safetensors file to write; it must not exist");
  declare_dtype(command, options.files.element);
  declare_threads(command, threads);
  OpenedStep step;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (output.empty()) problems.add("--output is missing: the safetensors file to write");
        options::check_output("--output", output, outputs::new_file, problems);
        open_input(problems, [&] { step = step_at(run); });
      },
      [&] {
        Progress progress(output);
        options.threads = static_cast<int>(threads);
        options.files.progress = [&](Index done, Index total) { progress.show(done, total); };
        interop::export_parameters(step, output, options);
        std::cout << output << ": the parameters of " << step.directory << " as "
                  << name(options.files.element) << '\n';
        return ExitCode::success;
      });
}

int prune(int argc, char** argv) {
  std::string directory;
  Retention retention;
  Output output;
  bool dry_run = false;
  CommandLine command(
      "trireme checkpoint prune",
      "Deletes old steps of a run, and what unfinished saves left behind. Refused while a job "
      "writes there. Damaged steps are kept, and are not counted.");
  command.positional("DIR", directory, "directory of a run (--save)");
  command.whole("--keep-last", retention.keep_last, at_least(1), "number of newest steps to keep");
  command.whole("--save-retain-interval", retention.retain_interval, at_least(1),
                "also keep steps that are multiples of N; default: none");
  command.flag("--dry-run", dry_run, "print what would be deleted, and delete nothing");
  output.declare(command);
  PrunePlan plan;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!command.given("--keep-last"))
          problems.add("--keep-last is missing: the number of newest steps to keep");
        open_input(problems, [&] { plan = plan_prune(directory, retention); });
      },
      [&] {
        if (!dry_run) {
          LeaseOptions at_once;
          at_once.wait_s = 0;
          const Lease lease(directory, "trireme-checkpoint-prune", at_once);
          const std::vector<std::string> cleaned = clean_leftovers(directory);
          plan = plan_prune(directory, retention);
          plan.deleted = prune_steps(directory, retention);
          plan.leftovers = cleaned;
        }
        output.print(plan, dry_run ? Tense::planned : Tense::done);
        return ExitCode::success;
      });
}

}  // namespace

std::vector<Subcommand> checkpoint_commands() {
  return {
      {{"checkpoint", "list"}, "DIR", "list the saved steps, and whether each is intact", list},
      {{"checkpoint", "show"},
       "DIR [--step N]",
       "show tensors, layout and options of a step",
       show},
      {{"checkpoint", "verify"}, "DIR [--step N]", "read and check every byte", verify},
      {{"checkpoint", "diff"}, "A B [--tolerance X]", "compare two steps, tensor by tensor", diff},
      {{"checkpoint", "export"},
       "RUN[:STEP] --output FILE",
       "write the parameters of a step as a safetensors file",
       export_file},
      {{"checkpoint", "prune"},
       "DIR --keep-last N",
       "delete old steps and what unfinished saves left",
       prune},
  };
}

}  // namespace trireme
