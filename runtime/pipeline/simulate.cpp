#include "runtime/pipeline/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/core/error.h"

namespace trireme::pipeline {

namespace {

constexpr double unknown = -1;

/// An exchange that must be started too. Each exchange has a list of them: there are very many.
struct Partner {
  int stage, exchange;
  int next;  // of the list, or -1
};

struct SimulatedExchange {
  int partners = -1;       // the first of the list
  bool unmatched = false;  // a message has no counterpart: never completes
  double started = unknown;
  double active = unknown;  // started, and all before it on this stage complete
  double transfer = 0;
  double complete = unknown;
};

class Simulator {
 public:
  Simulator(const std::vector<StageProgram>& programs, const std::vector<std::vector<Costs>>& costs)
      : programs_(programs),
        costs_(costs),
        next_(programs.size(), 0),
        clock_(programs.size(), 0),
        heads_(programs.size(), 0),
        queues_(programs.size()),
        exchanges_(programs.size()) {
    for (std::size_t s = 0; s < programs.size(); ++s) {
      exchanges_[s].reserve(programs[s].exchanges.size());
      for (const Exchange& exchange : programs[s].exchanges)
        exchanges_[s].emplace_back().transfer = transfer_time(s, exchange);
    }
    result_.stages.resize(programs.size());
    result_.transfer_waits.resize(programs.size());
    match_messages();
  }

  Simulation run() {
    if (!result_.problem.empty()) return result_;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < programs_.size(); ++s) {
        while (step(s)) moved = true;
        moved |= complete_head(s);
      }
    }
    describe_stuck();
    result_.completed = result_.problem.empty();
    result_.makespan = *std::max_element(clock_.begin(), clock_.end());
    result_.ends = clock_;
    return result_;
  }

 private:
  // Between two stages the n-th send meets the n-th receive, in the order in which exchanges are
  // started.
  void match_messages() {
    struct End {
      int exchange;
      const Hop* hop;
    };
    const std::size_t stages = programs_.size();
    std::vector<std::vector<End>> sends(stages * stages), receives(stages * stages);  // [from, to]
    for (std::size_t s = 0; s < stages; ++s)
      for (const Action& action : programs_[s].actions) {
        if (action.kind != Action::Kind::start) continue;
        const auto& exchange = programs_[s].exchanges[static_cast<std::size_t>(action.exchange)];
        for (const Hop& hop : exchange.sends)
          sends[s * stages + static_cast<std::size_t>(hop.peer)].push_back({action.exchange, &hop});
        for (const Hop& hop : exchange.receives)
          receives[static_cast<std::size_t>(hop.peer) * stages + s].push_back(
              {action.exchange, &hop});
      }
    for (std::size_t pair = 0; pair < sends.size(); ++pair) {
      const auto from = static_cast<int>(pair / stages), to = static_cast<int>(pair % stages);
      const std::vector<End>&out = sends[pair], &in = receives[pair];
      const std::size_t matched = std::min(out.size(), in.size());
      for (std::size_t i = 0; i < matched; ++i) {
        add_partner(at(from, out[i].exchange), to, in[i].exchange);
        add_partner(at(to, in[i].exchange), from, out[i].exchange);
        check_same_message({from, to}, *out[i].hop, *in[i].hop);
      }
      for (std::size_t i = matched; i < out.size(); ++i) at(from, out[i].exchange).unmatched = true;
      for (std::size_t i = matched; i < in.size(); ++i) at(to, in[i].exchange).unmatched = true;
    }
  }

  void add_partner(SimulatedExchange& exchange, int stage, int other) {
    for (int p = exchange.partners; p >= 0; p = partners_[static_cast<std::size_t>(p)].next) {
      const Partner& known = partners_[static_cast<std::size_t>(p)];
      if (known.stage == stage && known.exchange == other) return;
    }
    partners_.push_back({stage, other, exchange.partners});
    exchange.partners = static_cast<int>(partners_.size()) - 1;
  }

  void check_same_message(std::pair<int, int> pair, const Hop& out, const Hop& in) {
    const PipelineShape& shape = programs_.front().shape;
    const int from = shape.virtual_stage(pair.first, out.chunk);
    const int to = shape.virtual_stage(pair.second, in.chunk);
    const bool neighbours = out.kind == Hop::Kind::values ? to == from + 1 : to == from - 1;
    if (out.kind != in.kind || out.micro_batch != in.micro_batch || !neighbours)
      result_.problem +=
          str("stage ", pair.first, " sends micro-batch ", out.micro_batch, " of virtual stage ",
              from, " where stage ", pair.second, " receives micro-batch ", in.micro_batch,
              " for virtual stage ", to, "; ");
  }

  SimulatedExchange& at(int stage, int exchange) {
    return exchanges_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(exchange)];
  }

  const Costs& costs_of(std::size_t stage, int chunk) const {
    return costs_[stage][static_cast<std::size_t>(chunk)];
  }

  double transfer_time(std::size_t stage, const Exchange& exchange) const {
    double longest = 0;
    const auto take = [&](const Hop& hop, double TransferCosts::*values,
                          double TransferCosts::*gradients) {
      const TransferCosts& costs = costs_of(stage, hop.chunk).transfer;
      longest = std::max(longest, costs.*(hop.kind == Hop::Kind::values ? values : gradients));
    };
    for (const Hop& hop : exchange.sends)
      take(hop, &TransferCosts::values_out, &TransferCosts::gradients_out);
    for (const Hop& hop : exchange.receives)
      take(hop, &TransferCosts::values_in, &TransferCosts::gradients_in);
    return longest;
  }

  static double cost(const Costs& costs, WorkKind kind) {
    switch (kind) {
      case WorkKind::forward:
        return costs.forward;
      case WorkKind::backward:
        return costs.backward_input + costs.backward_weight;
      case WorkKind::backward_input:
        return costs.backward_input;
      case WorkKind::backward_weight:
        return costs.backward_weight;
    }
    return 0;
  }

  // The next action of a stage, if it can run.
  bool step(std::size_t s) {
    if (next_[s] == programs_[s].actions.size()) return false;
    const Action& action = programs_[s].actions[next_[s]];
    if (action.kind == Action::Kind::work) {
      const double begin = clock_[s];
      clock_[s] += cost(costs_of(s, action.work.chunk), action.work.kind);
      result_.stages[s].push_back({action.work, begin, clock_[s]});
    } else if (action.kind == Action::Kind::start) {
      start(s, action.exchange);
    } else {
      const SimulatedExchange& exchange = at(static_cast<int>(s), action.exchange);
      if (exchange.complete == unknown) return false;
      result_.transfer_waits[s] +=
          std::clamp(exchange.complete - clock_[s], 0.0, exchange.transfer);
      clock_[s] = std::max(clock_[s], exchange.complete);
    }
    ++next_[s];
    return true;
  }

  // Copies between chunks of the stage are done at once, whatever else is on its way.
  void start(std::size_t s, int number) {
    const Exchange& exchange = programs_[s].exchanges[static_cast<std::size_t>(number)];
    SimulatedExchange& simulated = at(static_cast<int>(s), number);
    simulated.started = clock_[s];
    if (exchange.sends.empty() && exchange.receives.empty())
      simulated.complete = clock_[s];
    else
      queues_[s].push_back(number);
  }

  // Only the oldest unfinished exchange of a stage can pass.
  bool complete_head(std::size_t s) {
    if (heads_[s] == queues_[s].size()) return false;
    SimulatedExchange& head = at(static_cast<int>(s), queues_[s][heads_[s]]);
    bool moved = false;
    if (head.active == unknown) {
      const double before =
          heads_[s] == 0 ? 0 : at(static_cast<int>(s), queues_[s][heads_[s] - 1]).complete;
      head.active = std::max(head.started, before);
      moved = true;
    }
    if (head.unmatched) return moved;
    double complete = head.active;
    for (int p = head.partners; p >= 0; p = partners_[static_cast<std::size_t>(p)].next) {
      const Partner& partner = partners_[static_cast<std::size_t>(p)];
      const double active = at(partner.stage, partner.exchange).active;
      if (active == unknown) return moved;
      complete = std::max(complete, active);
    }
    head.complete = complete + (head.partners < 0 ? 0 : head.transfer);
    ++heads_[s];
    return true;
  }

  void describe_stuck() {
    for (std::size_t s = 0; s < programs_.size(); ++s)
      if (next_[s] < programs_[s].actions.size()) {
        const int exchange = programs_[s].actions[next_[s]].exchange;
        result_.problem +=
            str("stage ", s, " waits for round ",
                programs_[s].exchanges[static_cast<std::size_t>(exchange)].round, " after ",
                result_.stages[s].empty()
                    ? std::string("nothing")
                    : describe(result_.stages[s].back().work, programs_[s].shape.chunks),
                "; ");
      }
  }

  const std::vector<StageProgram>& programs_;
  const std::vector<std::vector<Costs>>& costs_;
  std::vector<std::size_t> next_;  // action
  std::vector<double> clock_;
  std::vector<std::size_t> heads_;  // into queues_
  std::vector<std::vector<int>> queues_;
  std::vector<std::vector<SimulatedExchange>> exchanges_;
  std::vector<Partner> partners_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const std::vector<StageProgram>& programs, Costs costs) {
  require(!programs.empty(), "no programs to simulate");
  const auto chunks = static_cast<std::size_t>(programs.front().shape.chunks);
  return simulate(programs, std::vector<std::vector<Costs>>(programs.size(),
                                                            std::vector<Costs>(chunks, costs)));
}

Simulation simulate(const std::vector<StageProgram>& programs,
                    const std::vector<std::vector<Costs>>& costs) {
  require(!programs.empty(), "no programs to simulate");
  require(costs.size() == programs.size(), "costs of ", costs.size(), " stages for ",
          programs.size(), " programs");
  for (const std::vector<Costs>& stage : costs)
    require(static_cast<int>(stage.size()) == programs.front().shape.chunks, "costs of ",
            stage.size(), " chunks for ", programs.front().shape.chunks);
  return Simulator(programs, costs).run();
}

double Simulation::bubble() const {
  double busy = 0;
  for (const auto& spans : stages)
    for (const TimedSpan& span : spans) busy += span.end - span.begin;
  return makespan == 0 ? 0 : 1 - busy / (makespan * static_cast<double>(stages.size()));
}

std::string draw(const Simulation& simulation, int chunks) {
  std::size_t cell = 3;
  for (const auto& spans : simulation.stages)
    for (const TimedSpan& span : spans)
      cell = std::max(cell, describe(span.work, chunks).size() + 1);
  std::string text;
  for (std::size_t s = 0; s < simulation.stages.size(); ++s) {
    const auto width = static_cast<std::size_t>(std::lround(simulation.makespan));
    std::string row(width * cell, ' ');
    for (std::size_t i = 0; i < width; ++i) row[i * cell] = '.';
    for (const TimedSpan& span : simulation.stages[s]) {
      const auto begin = static_cast<std::size_t>(std::lround(span.begin)) * cell;
      const auto end = static_cast<std::size_t>(std::lround(span.end)) * cell;
      if (end <= begin) continue;
      const std::string label = describe(span.work, chunks);
      std::fill(row.begin() + static_cast<Index>(begin), row.begin() + static_cast<Index>(end - 1),
                end - begin > cell ? '=' : ' ');
      row.replace(begin, label.size(), label);
      row[end - 1] = ' ';
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += str("stage ", s, s < 10 ? "  " : " ", row, "\n");
  }
  return text;
}

}  // namespace trireme::pipeline
