#include "runtime/layouts/search/answer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "runtime/cost/profile.h"
#include "runtime/optim/optimizer.h"

namespace trireme::layouts {

Answer answer(const TrainingTask& task, const Question& question) {
  const GpuGroup& group = question.cluster.groups.front();
  Searcher searcher(task, group.profile.device);
  Answer all;
  all.result = searcher.search(group, question.aim);
  if (!question.explain.empty()) {
    all.explained = searcher.explain(group, question.explain, all.result.limit, all.not_explained);
  } else if (all.fits()) {
    if (!question.advises) return all;
    all.refusals = nearest_refusals(searcher, group, all.result);
    if (!group.profile.is_cpu())  // they are of GPUs
      all.levers = find_levers(searcher, group, question.aim, all.result);
  } else if (!all.result.considered.empty()) {
    all.least_need = find_least_need(searcher, group, all.result);
    all.fit = find_smallest_fit(searcher, group, question.aim);
  }
  return all;
}

Figures figures_of(const TrainingTask& task, const Question& question, const Evaluated& layout) {
  constexpr double seconds_per_hour = 3600;
  Figures figures;
  const auto tokens = static_cast<double>(task.tokens_per_step());
  figures.tokens_per_s = tokens / layout.time.total;
  double peak = 0;
  for (const GpuGroup& group : question.cluster.groups)
    peak += group.gpus() * group.profile.peak(task.options().compute());
  figures.mfu = figures.tokens_per_s * task.model().flops_per_token() / peak;
  figures.bubble = layout.time.bubble / layout.time.total;
  figures.hours = question.tokens / figures.tokens_per_s / seconds_per_hour;
  figures.cost = figures.hours * question.cluster.price();
  figures.energy_kwh = figures.hours * question.cluster.watts() / 1e3;
  return figures;
}

Index checkpoint_bytes(const TrainingTask& task) {
  const auto moments = static_cast<Index>(Optimizer::state_names(task.options().optimizer).size());
  return task.model().parameter_count() * (1 + moments) * size_bytes(DType::f32);
}

std::vector<std::string> launch_words(const TrainingTask& task, const Question& question,
                                      const Layout& layout) {
  const GpuGroup& group = question.cluster.groups.front();
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(layout.ranks())};
  if (layout.ranks() > group.per_node) {
    words.emplace_back("--map-by");
    words.push_back(str("ppr:", group.per_node, ":node"));
  }
  words.emplace_back("train_gpt");
  for (const auto& more : {question.words, task.words_of(layout)})
    words.insert(words.end(), more.begin(), more.end());
  if (group.profile.is_cpu()) words.insert(words.end(), {"--device", "cpu"});
  if (group.profile.is_cpu() && group.profile.device.threads > 1)
    words.insert(words.end(), {"--threads-per-rank", str(group.profile.device.threads)});
  return words;
}

namespace {

using Cut = std::pair<int, int>;  // tp and pp

Cut cut_of(const Layout& layout) { return {layout.tensor, layout.pipeline}; }

bool is_refused(const Considered& each) {
  return each.verdict == Verdict::state || each.verdict == Verdict::estimate ||
         each.verdict == Verdict::memory;
}

/// Null where the model cannot be cut so.
std::optional<Evaluated> evaluated(Searcher& searcher, const GpuGroup& group,
                                   const Layout& layout) {
  try {
    return searcher.evaluate(layout, group);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What saves memory: the same cut with everything that costs time for it.
Layout leanest_of(const SearchResult& result, const Layout& layout) {
  const auto leaner = [](const Layout& a, const Layout& b) {
    const auto key = [](const Layout& l) {
      return std::tuple(l.micro_batch, -static_cast<int>(l.recompute), !l.sharded,
                        !l.sequence_parallel, -l.head_chunks, l.chunks);
    };
    return key(a) < key(b);
  };
  Layout leanest = layout;
  for (const Considered& each : result.considered)
    if (cut_of(each.layout) == cut_of(layout) && leaner(each.layout, leanest))
      leanest = each.layout;
  return leanest;
}

/// With the details that cost least: others differ little.
bool is_plain(const Layout& layout) {
  return layout.head_chunks == 1 && (layout.data == 1 || layout.sharded) &&
         (layout.tensor == 1 || layout.sequence_parallel);
}

struct Timed {
  double seconds;
  Layout layout;
};

/// Those that were refused, or that were not: in order of time, the first of each cut.
std::vector<Timed> first_of_each_cut(Searcher& searcher, const GpuGroup& group,
                                     const SearchResult& result, bool refused,
                                     std::set<Cut>& seen) {
  std::vector<Timed> all;
  for (const Considered& each : result.considered)
    if (is_refused(each) == refused && each.verdict != Verdict::impossible && is_plain(each.layout))
      all.push_back({searcher.least_seconds(each.layout, group), each.layout});
  std::stable_sort(all.begin(), all.end(),
                   [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  std::vector<Timed> first;
  for (const Timed& each : all)
    if (seen.insert(cut_of(each.layout)).second) first.push_back(each);
  return first;
}

std::optional<NearRefusal> refusal_of(Searcher& searcher, const GpuGroup& group,
                                      const SearchResult& result, const Layout& layout) {
  std::optional<Evaluated> made = evaluated(searcher, group, layout);
  if (!made) return std::nullopt;
  NearRefusal refusal{std::move(*made), Verdict::slower, std::nullopt};
  if (refusal.layout.bytes <= result.limit) return refusal;
  refusal.verdict = Verdict::memory;
  const Layout leanest = leanest_of(result, layout);
  if (!(leanest == layout)) {
    std::optional<Evaluated> lean = evaluated(searcher, group, leanest);
    if (lean && lean->bytes > result.limit) refusal.leanest = std::move(lean);
  }
  return refusal;
}

}  // namespace

std::vector<NearRefusal> nearest_refusals(Searcher& searcher, const GpuGroup& group,
                                          const SearchResult& result, int most) {
  std::vector<NearRefusal> all;
  std::set<Cut> seen;
  for (const std::size_t best : result.best) seen.insert(cut_of(result.evaluated[best].layout));
  const double best = result.evaluated[result.best.front()].time.total;
  for (const bool refused : {true, false}) {
    // Half of them for each kind, so that both are seen.
    const auto limit = static_cast<std::size_t>(refused ? (most + 1) / 2 : most);
    std::set<Cut> cuts = seen;  // a cut that does not fit may have a layout that does
    for (const Timed& each : first_of_each_cut(searcher, group, result, refused, cuts)) {
      if (all.size() >= limit || (refused && each.seconds >= best)) break;
      if (auto refusal = refusal_of(searcher, group, result, each.layout))
        all.push_back(std::move(*refusal));
    }
  }
  return all;
}

std::vector<Lever> find_levers(Searcher& searcher, const GpuGroup& group, const SearchAim& aim,
                               const SearchResult& result) {
  std::vector<Lever> levers;
  if (result.best.empty()) return levers;
  SearchAim one = aim;
  one.best = 1;
  one.all_ranks = false;  // it is the time that is asked for
  const auto add = [&](const GpuGroup& other, const std::string& change) {
    const SearchResult found = searcher.search(other, one);
    if (found.best.empty()) return;
    const Evaluated& best = found.evaluated[found.best.front()];
    levers.push_back({change, best.time.total, best.layout});
  };
  const cost::Profile larger = cost::known_profile("H200");
  if (larger.memory > group.profile.memory) {
    GpuGroup other = group;
    other.profile.memory = larger.memory;
    add(other, show_bytes(larger.memory) + " a GPU, as " + larger.name + " has");
  }
  if (group.nodes > 1) {
    GpuGroup other = group;
    other.network.port.bytes_per_s *= 2;
    add(other, "a network of twice the rate");
  }
  return levers;
}

std::optional<SmallestFit> find_smallest_fit(Searcher& searcher, const GpuGroup& group,
                                             const SearchAim& aim) {
  // Each number of nodes is a search: of large clusters not all are tried.
  constexpr int most_times = 32, most_searches = 256;
  const int most = std::min(most_times * group.nodes, group.nodes + most_searches);
  SearchAim one = aim;
  one.best = 1;
  GpuGroup other = group;
  for (int nodes = group.nodes + 1; nodes <= most; ++nodes) {
    other.nodes = nodes;
    const SearchResult found = searcher.search(other, one);
    if (!found.best.empty()) return SmallestFit{other.gpus(), found.evaluated[found.best.front()]};
  }
  return std::nullopt;
}

std::optional<Evaluated> find_least_need(Searcher& searcher, const GpuGroup& group,
                                         const SearchResult& result) {
  std::optional<Evaluated> least;
  std::set<Cut> seen;
  for (const Considered& each : result.considered) {
    if (!seen.insert(cut_of(each.layout)).second) continue;
    std::optional<Evaluated> made = evaluated(searcher, group, leanest_of(result, each.layout));
    if (made && (!least || made->bytes < least->bytes)) least = std::move(made);
  }
  return least;
}

}  // namespace trireme::layouts
