#include "launch/plan_trials.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "trireme/core/random.h"
#include "trireme/data/token_file.h"

#include "launch/verify/program_words.h"
#include "runtime/core/json/json.h"
#include "runtime/core/median.h"
#include "runtime/core/process/child.h"
#include "runtime/store/write/held_path.h"

namespace trireme {
namespace {

using namespace cost;
using namespace layouts;
using verify::Words;

constexpr Index steps = 5, first_timed = 3;
constexpr double limit_s = 1800;  // of a job

/// Enough for the first steps, or to be read again and again.
std::string random_tokens(const TrainingTask& task, const TemporaryDirectory& directory) {
  constexpr Index least = 20'000, most = Index{1} << 24;
  const Index vocabulary = task.model().vocab_size;
  const Index count = std::clamp(2 * steps * task.tokens_per_step(), least, most);
  const Random random = random_for(1, "tokens of a trial");
  std::vector<std::int64_t> tokens;
  for (Index i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<std::int64_t>(random.bits(i) % static_cast<std::uint64_t>(vocabulary)));
  const std::string prefix = directory.path() + "/tokens";
  TokenFileWriter writer(prefix, token_type_for(vocabulary));
  writer.add(tokens);
  writer.end_document();
  writer.finish();
  return prefix;
}

/// Beside this program, else in PATH.
std::string program() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "train_gpt";
  return is_executable(here.string()) ? here.string() : "train_gpt";
}

class Trial {
 public:
  Trial(const TrainingTask& task, const Question& question, const Trials& trials,
        const EndSignals& signals)
      : task_(task), question_(question), trials_(trials), signals_(signals) {
    if (!task.given("--data-path")) data_ = {"--data-path", random_tokens(task, directory_)};
  }

  TriedLayout run(const Evaluated& layout) const {
    TriedLayout tried{layout.layout, layout.time.total, 0, {}};
    const std::string metrics = directory_.path() + "/metrics.jsonl";
    std::filesystem::remove(metrics);
    const ChildEnd end = verify::run_job(words_of(layout.layout, metrics), limit_s, signals_);
    if (end.code() != 0)
      tried.problem = end.why == ChildEnd::Why::late ? str("no end after ", limit_s, " s")
                                                     : verify::reason_in(end.output);
    else
      tried.measured_s = median_step(metrics);
    return tried;
  }

 private:
  Words words_of(const Layout& layout, const std::string& metrics) const {
    const Words launched = launch_words(task_, question_, layout);
    const auto name = std::find(launched.begin(), launched.end(), "train_gpt");
    Words words = trials_.mpirun;
    words.insert(words.end(), launched.begin() + 1, name);
    Words own =
        verify::plain_words(Words(name + 1, launched.end()), directory_.path() + "/config.toml");
    own.insert(own.end(), data_.begin(), data_.end());
    words.push_back(program());
    words.insert(words.end(), own.begin(), own.end());
    words.insert(words.end(), {"--train-iters", str(steps), "--lr-warmup-iters", "0",
                               "--lr-decay-style", "constant", "--metrics", metrics});
    return words;
  }
  static double median_step(const std::string& metrics) {
    std::ifstream in(metrics);
    std::vector<double> seconds;
    Index step = 0;
    for (std::string line; std::getline(in, line);) {
      const Json json = parse_json(line);
      const Json* ms = json.find("step_ms");
      if (ms == nullptr || ++step < first_timed) continue;
      const auto* whole = std::get_if<Index>(&ms->value);
      const auto* real = std::get_if<double>(&ms->value);
      if (whole != nullptr || real != nullptr)
        seconds.push_back((real != nullptr ? *real : static_cast<double>(*whole)) / 1e3);
    }
    require(!seconds.empty(), metrics, ": has no time of a step");
    return median(std::move(seconds));
  }

  const TrainingTask& task_;
  const Question& question_;
  const Trials& trials_;
  const EndSignals& signals_;
  const TemporaryDirectory directory_{std::filesystem::temp_directory_path().string(),
                                      "trireme-plan"};
  Words data_;
};

}  // namespace

void try_layouts(const TrainingTask& task, const Question& question, const Trials& trials,
                 const EndSignals& signals, Answer& answer) {
  const Trial trial(task, question, trials, signals);
  std::vector<std::size_t>& best = answer.result.best;
  const std::size_t count = std::min(trials.layouts, best.size());
  std::size_t fastest = count;
  for (std::size_t i = 0; i < count; ++i) {
    const Evaluated& layout = answer.result.evaluated[best[i]];
    std::cerr << "trireme plan: trying " << i + 1 << " of " << count << ": "
              << describe(layout.layout) << '\n';
    answer.tried.push_back(trial.run(layout));
    const TriedLayout& tried = answer.tried.back();
    if (tried.problem.empty() &&
        (fastest == count || tried.measured_s < answer.tried[fastest].measured_s))
      fastest = i;
  }
  require(fastest < count, "none of the layouts trains; the first one says:\n",
          answer.tried.front().problem);
  std::rotate(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(fastest),
              best.begin() + static_cast<std::ptrdiff_t>(fastest) + 1);
}

}  // namespace trireme
