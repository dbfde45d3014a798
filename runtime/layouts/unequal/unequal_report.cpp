// The screen of trireme plan for GPUs of several types.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/core/at.h"
#include "runtime/core/show_bytes.h"
#include "runtime/cost/units.h"
#include "runtime/layouts/report/report.h"
#include "runtime/layouts/report/text.h"
#include "runtime/layouts/unequal/unequal_answer.h"

namespace trireme::layouts {
namespace {

/// Each line begins with #.
std::string as_comment(std::string lines) {
  for (std::size_t end = 0; (end = lines.find("\n ", end)) != std::string::npos;)
    lines[++end] = '#';
  return lines;
}

class Screen {
 public:
  Screen(const TrainingTask& task, const Question& question, const UnequalResult& result)
      : task_(task), question_(question), cluster_(question.cluster), result_(result) {}

  std::string all() const {
    std::string text = heading(task_, question_) + '\n';
    if (result_.best.empty()) return text + no_fit();
    text += table() + '\n';
    if (result_.launched < 0) return text + "none of these can be launched yet\n" + counts();
    const Choice& launched = result_.best[at(result_.launched)];
    if (launched.plan) text += pipelines(*launched.plan);
    text += choices() + left_out() + equal_shares() + counts();
    text += notes(task_, cluster_, figures_of(task_, question_, launched));
    if (const std::string why = why_not_run(cluster_); !why.empty()) return text;
    text += '\n';
    if (launched.plan)
      text += as_comment(wrapped(
          "# hosts: " + describe_hosts(cluster_, host_runs(cluster_, launched.plan->plan)), 2));
    return text + comment_of_command(task_, question_) +
           shell_command(launch_words(task_, question_, launched));
  }

 private:
  std::string table() const {
    const bool total = question_.tokens > 0;
    std::vector<Table::Column> columns = {{"", false, 1}, {"layout", true}, {"GPUs", true},
                                          {"step"},       {"tokens/s"},     {"MFU"}};
    if (total) columns.push_back({"total time"});
    if (is_priced() && total) columns.push_back({"cost"});
    Table table(columns);
    for (std::size_t i = 0; i < result_.best.size(); ++i) {
      const Choice& choice = result_.best[i];
      const Figures figures = figures_of(task_, question_, choice);
      const bool chosen = static_cast<int>(i) == result_.launched;
      table.add({fmt::format("{:>2} {}", i + 1, chosen ? '>' : ' '), describe(choice),
                 describe_gpus(cluster_, choice), show_seconds(choice.seconds),
                 in_thousands(figures.tokens_per_s),
                 fmt::format("{:.0f} %", cost::percent * figures.mfu), show_hours(figures.hours),
                 figures.cost > 0 ? show_cost(figures.cost) : ""});
      if (!choice.not_launched.empty())
        table.add_note("cannot be launched yet: " + choice.not_launched);
    }
    return table.text();
  }

  /// "4 H100-80 (40 blocks) > 2 RTX-4090 (8+7 blocks)".
  std::string describe_stages(const PipelineKind& kind) const {
    std::string text;
    for (std::size_t s = 0; s < kind.types.size();) {
      std::vector<int> blocks;
      const int type = kind.types[s];
      for (; s < kind.types.size() && kind.types[s] == type; ++s) blocks.push_back(kind.blocks[s]);
      text +=
          fmt::format("{}{} ({} block{})", text.empty() ? "" : " > ", cluster_.groups[at(type)].gpu,
                      fmt::join(blocks, "+"), blocks.size() == 1 && blocks.front() == 1 ? "" : "s");
    }
    return text;
  }

  std::string pipelines(const ExactPlan& exact) const {
    std::string text = fmt::format("pipelines of {}\n", result_.launched + 1);
    for (std::size_t k = 0; k < exact.kinds.size(); ++k) {
      const PipelineKind& kind = exact.plan.kinds[k];
      const KindFacts& facts = exact.kinds[k];
      const auto tightest = static_cast<std::size_t>(
          std::max_element(facts.bytes.begin(), facts.bytes.end()) - facts.bytes.begin());
      std::string share = std::to_string(kind.share.each);
      if (kind.share.more > 0)
        share = kind.share.more == kind.count
                    ? std::to_string(kind.share.most())
                    : fmt::format("{} or {}", kind.share.each, kind.share.most());
      const std::string slice =
          exact.parts.optimizer.empty()
              ? ""
              : fmt::format(", {:.1f} % of the optimizer", cost::percent * exact.slice(k));
      text += wrapped(
          fmt::format("   {} of {}: {} micro-batches, busy {}, {} of {} a GPU{}", kind.count,
                      describe_stages(kind), share, show_seconds(facts.busy()),
                      show_bytes(facts.bytes[tightest]), show_bytes(facts.limits[tightest]), slice),
          6);
    }
    return text;
  }

  std::string choices() const {
    const Choice& first = result_.subsets.front();
    const double cost = figures_of(task_, question_, first).cost;
    Table table({{"", false, 2}, {"", true}, {"", true}, {""}, {""}, {""}});
    for (const Choice& choice : result_.subsets) {
      const bool other = &choice != &first;
      const double its = figures_of(task_, question_, choice).cost;
      table.add({" ", describe_gpus(cluster_, choice), describe(choice),
                 show_seconds(choice.seconds),
                 other ? fmt::format("time x {:.2f}", choice.seconds / first.seconds) : "",
                 other && cost > 0 && its > 0 ? fmt::format("cost x {:.2f}", its / cost) : ""});
    }
    return "choices of GPUs, the fastest that can be launched of each\n" + table.text();
  }

  const Choice* cheapest() const {
    const Choice* best = nullptr;
    double least = 0;
    for (const Choice& choice : result_.subsets) {
      const double cost = figures_of(task_, question_, choice).cost;
      if (cost > 0 && (best == nullptr || cost < least)) best = &choice, least = cost;
    }
    return best;
  }

  /// What to leave out, and why.
  std::string left_out() const {
    const Choice& fastest = result_.subsets.front();
    std::string text, out;
    for (std::size_t g = 0; g < cluster_.groups.size(); ++g)
      if ((fastest.groups & (1U << g)) == 0)
        out += (out.empty() ? "" : " and ") + cluster_.groups[g].gpu;
    if (!out.empty()) text += fmt::format("leave out {}: training is faster without\n", out);
    const Choice* cheap = cheapest();
    if (cheap == nullptr) return text;
    const double least = figures_of(task_, question_, *cheap).cost;
    const double cost = figures_of(task_, question_, fastest).cost;
    if (cheap == &fastest) return text + "the fastest choice is the cheapest, too\n";
    if (cost <= 0) return text;
    return text + wrapped(fmt::format("cheapest: {}: cost x {:.2f}, time x {:.2f}",
                                      describe_gpus(cluster_, *cheap), least / cost,
                                      cheap->seconds / fastest.seconds),
                          3);
  }

  std::string equal_shares() const {
    const Choice& launched = result_.best[at(result_.launched)];
    if (!launched.plan || launched.plan->parts.shares.empty() || result_.equal_shares == 0)
      return "";
    return fmt::format("with equal shares of the batch a step takes {}, {:.2f} times as long\n",
                       show_seconds(result_.equal_shares), result_.equal_shares / launched.seconds);
  }

  std::string counts() const {
    return fmt::format("   {} plan{}: {} planned exactly, of which {} did not fit\n",
                       result_.considered, result_.considered == 1 ? "" : "s", result_.planned,
                       result_.refused);
  }

  std::string no_fit() const {
    return wrapped(
        fmt::format("none of {} plans fits {}: {} were planned exactly, the others cannot hold "
                    "their state and activations, or are not legal",
                    result_.considered, cluster_.describe(), result_.planned),
        3);
  }

  bool is_priced() const {
    return std::any_of(result_.best.begin(), result_.best.end(), [&](const Choice& choice) {
      return figures_of(task_, question_, choice).cost > 0;
    });
  }

  const TrainingTask& task_;
  const Question& question_;
  const Cluster& cluster_;
  const UnequalResult& result_;
};

}  // namespace

std::string report(const TrainingTask& task, const Question& question,
                   const UnequalResult& result) {
  return Screen(task, question, result).all();
}

}  // namespace trireme::layouts
