#include "launch/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <unistd.h>

#include "trireme/options/problems.h"

#include "runtime/core/process/child.h"
#include "runtime/core/show_bytes.h"
#include "runtime/store/write/held_path.h"

namespace trireme::verify {
namespace {

namespace fs = std::filesystem;
using Why = ChildEnd::Why;

constexpr double time_to_answer_s = 300;
// What one rank in fp32 does not get: attention on tensor cores needs bf16.
const Words in_bf16_only = {"--bf16", "--attention"};
const std::string chunks_option = "--num-virtual-stages-per-pipeline-rank";

/// Asks the program about layouts, without ranks.
class Questions {
 public:
  /// `config`: a file for what is left of --config.
  Questions(const std::string& config, const EndSignals& signals)
      : config_(config), signals_(signals) {}

  /// What it says of these words; `who`: what is asked about. Throws: ConfigurationError with all
  /// that is wrong.
  Facts ask(const Words& words, Index ranks, const std::string& who) {
    Facts facts = answer(words, ranks);
    if (facts.legal && facts.rank_bytes > 0) return facts;
    std::string message = who;
    if (facts.legal) message += " trains nothing: verify needs a program that has a Trainer";
    for (const std::string& problem : facts.problems)
      message += (message == who ? ": " : "; ") + problem;
    throw ConfigurationError(message);
  }

 private:
  Facts answer(const Words& words, Index ranks) {
    // Layouts are checked for a CPU, for which the kernels of a GPU are no choice.
    Words question = without_options(words, {"--attention"}, config_);
    question.insert(question.end(), {"--check-layout", str(ranks)});
    const ChildEnd end = run_job(question, time_to_answer_s, signals_);
    if (end.why == Why::late)
      throw Error(str("the program has not answered --check-layout ", ranks, " in ",
                      time_to_answer_s, " s:\n", reason_in(end.output)));
    try {
      return facts_in(end.output, ranks);
    } catch (const Error& error) {
      throw ConfigurationError(error.what());
    }
  }

  std::string config_;
  const EndSignals& signals_;
};

/// The jobs of one request.
struct Plan {
  Words layout, one, truth;  // programs; truth: one rank in fp32
  Report report;
  bool sharded = false;
  Index state_bytes = 0;  // of one rank: a job writes it, and gradients and parameters once more
  LayoutOfRanks ranks() const { return {report.mesh, sharded}; }
};

Words depth_words(const Request& request, const Facts& facts, Report& report) {
  const std::string own = facts.option(request.depth_option);
  const Index stages = facts.pipeline * facts.number(chunks_option);
  if (own.empty()) {
    if (request.depth > 0)
      throw ConfigurationError(str("--depth ", request.depth, ": ", report.program,
                                   " has no option ", request.depth_option,
                                   "; --depth-option says which sets its number of blocks"));
    return {};
  }
  report.of_depth = facts.number(request.depth_option);
  report.depth = request.depth > 0 ? request.depth : std::min(stages, report.of_depth);
  if (report.depth > report.of_depth)
    throw ConfigurationError(
        str("--depth ", report.depth, ": the model has ", report.of_depth, " blocks"));
  return {request.depth_option, str(report.depth)};
}

Plan make_plan(const Request& request, const TemporaryDirectory& directory,
               const EndSignals& signals) {
  Plan plan;
  Report& report = plan.report;
  report.program = fs::path(request.program.front()).filename().string();
  Words plain;
  try {
    plain = plain_words(request.program, directory.path() + "/config.toml");
  } catch (const Error& error) {
    throw ConfigurationError(error.what());
  }
  Questions program(directory.path() + "/config-question.toml", signals);
  const Facts facts = program.ask(plain, request.ranks, "the layout");
  plan.layout = supervisor::with_options_of(plain, depth_words(request, facts, report));
  const Facts shallow =
      program.ask(plan.layout, request.ranks, str("the layout with ", report.depth, " blocks"));
  plan.one = one_rank_words(plan.layout, directory.path() + "/config-one.toml");
  const Facts one_rank = program.ask(plan.one, 1, "one rank");
  report.one_rank_bytes = one_rank.rank_bytes;
  plan.state_bytes = one_rank.state_bytes;
  report.mesh = shallow.mesh();
  report.chunks = shallow.number(chunks_option);
  report.bf16 = shallow.bf16();
  plan.sharded = shallow.option("--use-distributed-optimizer") == "true";
  plan.truth = report.bf16
                   ? without_options(plan.one, in_bf16_only, directory.path() + "/config-f32.toml")
                   : plan.one;
  return plan;
}

/// "CPU" or "GPU", by the line of the log.
std::string device_in(const std::string& output) {
  const std::string mark = "] device: ";
  const std::size_t at = output.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + mark.size();
  return output.substr(begin, output.find_first_of(" ,\n", begin) - begin);
}

Index memory_of_this_machine() {
  return static_cast<Index>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<Index>(::sysconf(_SC_PAGESIZE));
}

Index bytes_in(const std::string& folder) {
  Index bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += static_cast<Index>(entry.file_size());
  return bytes;
}

class Verification {
 public:
  Verification(const Request& request, const EndSignals& signals)
      : request_(request),
        signals_(signals),
        directory_(request.directory, "trireme-verify"),
        plan_(make_plan(request, directory_, signals)) {
    // The first job says so where this machine lacks the memory; another directory has no more.
    if (plan_.report.one_rank_bytes <= memory_of_this_machine())
      require_space((1 + later_jobs()) * plan_.state_bytes);
  }

  Report run() {
    train_one_rank();
    train_layout();
    if (!layout_.empty() && report().fault() == nullptr) repeat_layout();
    if (report().proved()) {
      resume("layout's checkpoint on one rank", {plan_.one, "", layout_}, 1, layout_,
             {MeshShape(1, 1, 1), false});
      resume("one rank's checkpoint on the layout", {plan_.layout, "", one()}, request_.ranks,
             one(), plan_.ranks());
    }
    return report();
  }

 private:
  Report& report() { return plan_.report; }
  /// Of one rank in the type of the layout.
  const std::string& one() const { return one_.empty() ? truth_ : one_; }

  void train_one_rank() {
    const std::string wide = report().bf16 ? "one rank, fp32" : "one rank";
    truth_ = train(wide, {plan_.truth}, 1);
    check_finite(wide, truth_);
    require_space(later_jobs() * bytes_in(truth_));
    if (!report().bf16) return;
    one_ = train("one rank, bf16", {plan_.one}, 1);
    check_finite("one rank, bf16", one_);
  }

  static void check_finite(const std::string& name, const std::string& folder) {
    for (const StepLine& line : read_steps(metrics_in(folder)))
      require(std::isfinite(line.loss) && std::isfinite(line.grad_norm),
              "the loss or gradient norm of ", name,
              " is no number: there is nothing to compare with; another --lr, data or model "
              "trains");
  }

  void train_layout() {
    layout_ = train("the layout", {plan_.layout}, request_.ranks);
    if (layout_.empty()) return;
    const Folders folders{truth_, one_, layout_};
    add(check_losses(folders));
    add(check_gradients(folders, plan_.ranks(), distances_));
    add(check_parameters(folders, plan_.ranks(), distances_));
  }

  /// Its replicas are compared in this run only, so that a difference in the first one has a name.
  void repeat_layout() {
    JobWords words{plan_.layout};
    words.compares_replicas = report().mesh.size(Role::batch) > 1;
    const std::string again = train("the layout again", words, request_.ranks);
    if (again.empty()) return;
    add({check_same_bits(layout_, again, plan_.ranks())});
    discard(again);
  }

  void resume(const std::string& name, const JobWords& words, Index ranks, const std::string& whole,
              const LayoutOfRanks& held) {
    const std::string resumed = train(name, words, ranks);
    if (resumed.empty()) return;
    add({check_resumed(name, whole, resumed, report().bf16, held, distances_)});
    discard(resumed);
  }

  /// For space only: what is left is removed with the directory.
  static void discard(const std::string& folder) {
    std::error_code unknown;
    fs::remove_all(folder, unknown);
  }

  /// Returns the folder of the job; empty: it found its own results wrong, which is a check that
  /// has failed.
  std::string train(const std::string& name, JobWords words, Index ranks) {
    words.folder = str(directory_.path(), "/job-", ++jobs_);
    fs::create_directory(words.folder);
    Words line = request_.mpirun;
    line.insert(line.end(), {"-np", str(ranks)});
    const Words program = words_of(words);
    line.insert(line.end(), program.begin(), program.end());
    request_.say(str(jobs_, " of ", report().bf16 ? 6 : 5, ": ", name, ", ", ranks,
                     ranks == 1 ? " rank" : " ranks"));
    const ChildEnd end = run_job(line, request_.limit_s, signals_);
    if (end.code() == static_cast<int>(ExitCode::success)) {
      compare_devices(end.output);
      return words.folder;
    }
    const std::string reason = reason_in(end.output);
    if (end.code() == static_cast<int>(ExitCode::configuration))
      throw ConfigurationError(str(name, " cannot train", depth_text(), ":\n", reason));
    if (end.code() == static_cast<int>(ExitCode::corrupted)) {
      Check failed{"replicas"};
      failed.text = reason;
      add({failed});
      return "";
    }
    throw Error(str("job ", jobs_, ", ", name, ", ",
                    end.why == Why::late
                        ? str("has not ended in ", request_.limit_s, " s (--limit)")
                    : end.code() ? str("has ended with exit code ", *end.code())
                                 : "has been ended by a signal",
                    ":\n", reason));
  }

  std::string depth_text() const {
    const Index depth = plan_.report.depth;
    return depth == 0 ? "" : str(" ", depth, depth == 1 ? " block" : " blocks");
  }

  void compare_devices(const std::string& output) {
    const std::string device = device_in(output);
    if (report().device.empty()) report().device = device;
    if (device == report().device || device.empty()) return;
    throw ConfigurationError(str("one rank trains on a ", report().device, ", the layout on a ",
                                 device, ": give --device cpu or cuda to the program"));
  }

  /// Each later job writes about as much as the first, and up to three lie there at a time.
  Index later_jobs() const { return plan_.report.bf16 ? 3 : 2; }
  void require_space(Index needed) const {
    std::error_code unknown;
    const fs::space_info space = fs::space(directory_.path(), unknown);
    if (!unknown && static_cast<Index>(space.available) < needed)
      throw ConfigurationError(str("--directory ", request_.directory, ": has ",
                                   show_bytes(static_cast<Index>(space.available)),
                                   " free, and the files of the jobs need ", show_bytes(needed),
                                   "; give another one"));
  }

  void add(const std::vector<Check>& checks) {
    report().checks.insert(report().checks.end(), checks.begin(), checks.end());
    if (signals_.came()) throw Interrupted();
  }

  const Request& request_;
  const EndSignals& signals_;
  TemporaryDirectory directory_;
  Plan plan_;
  std::string truth_, one_, layout_;
  GradientDistances distances_;
  int jobs_ = 0;
};

}  // namespace

bool Report::proved() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.passed; });
}

const TensorFault* Report::fault() const {
  for (const Check& check : checks)
    if (check.fault) return &*check.fault;
  return nullptr;
}

Report verify(const Request& request, const EndSignals& signals) {
  return Verification(request, signals).run();
}

}  // namespace trireme::verify
