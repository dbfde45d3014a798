#include "runtime/pipeline/program.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/pipeline/schedule.h"

#include "runtime/core/at.h"
#include "runtime/pipeline/simulate.h"

namespace trireme::pipeline {
namespace {

/// Timetable: the work orders of all stages run in time slots, each work one slot, a whole backward
/// two, as early as its input allows. It checks the orders on the way: complete, in order of
/// micro-batches per chunk, and without circular waiting.
struct TimedWork {
  Work work;
  Index begin, end;
};

class Timetable {
 public:
  /// Throws: Error that says what is wrong with the orders, or which stage waits for what.
  Timetable(const std::vector<WorkOrder>& orders, const PipelineShape& shape);

  bool has_backward() const { return has_backward_; }
  const std::vector<TimedWork>& work(int stage) const {
    return work_[static_cast<std::size_t>(stage)];
  }
  /// When virtual stage v has run forward, has made its input gradients, and is done with
  /// micro-batch i.
  Index forward(int v, Index i) const { return at(v, i).forward; }
  Index backward(int v, Index i) const { return at(v, i).backward; }
  Index released(int v, Index i) const { return at(v, i).released; }
  /// Memory slots that virtual stage v needs. Training: most micro-batches between their forward
  /// and their release. Forward only: most between their arrival and their release, for the sender
  /// does not keep them.
  Index in_flight(int v) const { return in_flight_[static_cast<std::size_t>(v)]; }

 private:
  static constexpr Index not_yet = -1;
  struct Times {
    Index forward = not_yet, backward = not_yet, released = not_yet;
  };
  const Times& at(int v, Index i) const {
    return times_[static_cast<std::size_t>(v * shape_.micro_batches + i)];
  }
  Times& at(int v, Index i) {
    return times_[static_cast<std::size_t>(v * shape_.micro_batches + i)];
  }

  struct Done;
  std::string turn_problem(const Work& work, Index next, Index limit) const;
  std::string half_problem(int chunk, Index micro_batch) const;
  void check_order(const WorkOrder& order, int stage);
  void check_complete(const Done& done, int stage, int chunk) const;
  Index input_ready(const Work& work, int stage) const;
  bool run_next(const WorkOrder& order, int stage);
  void count_arrivals();
  [[noreturn]] void fail(const std::vector<WorkOrder>& orders) const;

  PipelineShape shape_;
  bool has_backward_ = false;
  std::vector<std::vector<TimedWork>> work_;  // per stage
  std::vector<Times> times_;                  // (virtual stage, micro-batch)
  std::vector<Index> in_flight_;              // per virtual stage
};

Timetable::Timetable(const std::vector<WorkOrder>& orders, const PipelineShape& shape)
    : shape_(shape) {
  require(static_cast<int>(orders.size()) == shape.stages, orders.size(), " work orders for ",
          shape.stages, " stages");
  for (const WorkOrder& order : orders)
    for (const Work& work : order) has_backward_ |= work.kind != WorkKind::forward;
  work_.resize(orders.size());
  times_.resize(static_cast<std::size_t>(shape.virtual_stages() * shape.micro_batches));
  in_flight_.assign(static_cast<std::size_t>(shape.virtual_stages()), 1);
  for (int stage = 0; stage < shape.stages; ++stage)
    check_order(orders[static_cast<std::size_t>(stage)], stage);

  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < shape.stages; ++stage)
      while (run_next(orders[static_cast<std::size_t>(stage)], stage)) moved = true;
  }
  for (std::size_t stage = 0; stage < orders.size(); ++stage)
    if (work_[stage].size() < orders[stage].size()) fail(orders);
  if (!has_backward_) count_arrivals();
}

// The first micro-batch that a chunk has not run yet, by kind of work.
struct Timetable::Done {
  Index forward = 0, input = 0, weight = 0;
};

// Work of a chunk runs in order of micro-batches: `next` is the one whose turn it is, `limit` what
// has run of the work that comes before it.
std::string Timetable::turn_problem(const Work& work, Index next, Index limit) const {
  const auto called = [&](WorkKind kind, Index micro_batch) {
    return describe(Work{kind, work.chunk, micro_batch}, shape_.chunks);
  };
  if (work.micro_batch == next && next < limit) return "";
  if (next == shape_.micro_batches)
    return str("chunk ", work.chunk, " has run ", called(work.kind, next - 1),
               ", its last, already: each runs once");
  if (work.micro_batch != next)
    return str("it has to be ", called(work.kind, next),
               ": a chunk takes its micro-batches from 0 to ", shape_.micro_batches - 1,
               ", each once");
  return str(
      called(work.kind == WorkKind::backward_weight ? WorkKind::backward_input : WorkKind::forward,
             next),
      " has to come before it");
}

// A whole backward needs both halves of those before it.
std::string Timetable::half_problem(int chunk, Index micro_batch) const {
  return str("it has to be ",
             describe(Work{WorkKind::backward_weight, chunk, micro_batch}, shape_.chunks),
             ": the weight gradients of micro-batch ", micro_batch, " are due");
}

// Counts what each chunk has done so far, and derives in_flight_.
void Timetable::check_order(const WorkOrder& order, int stage) {
  std::vector<Done> done(static_cast<std::size_t>(shape_.chunks));
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Work& work = order[position];
    require(work.chunk >= 0 && work.chunk < shape_.chunks, "stage ", stage, ", work ", position,
            ": chunk ", work.chunk, " of ", shape_.chunks, "; chunks are numbered from 0 to ",
            shape_.chunks - 1);
    Done& d = done[static_cast<std::size_t>(work.chunk)];
    const auto check_turn = [&](const std::string& problem) {
      if (!problem.empty())  // there are very many works
        throw Error(str("stage ", stage, ", work ", position, ": ", describe(work, shape_.chunks),
                        " is out of turn: ", problem));
    };
    const auto take_turn = [&](Index& next, Index limit) {
      check_turn(turn_problem(work, next, limit));
      ++next;
    };
    const bool whole = work.kind == WorkKind::backward;
    if (whole && d.weight < d.input) check_turn(half_problem(work.chunk, d.weight));
    if (work.kind == WorkKind::forward) take_turn(d.forward, shape_.micro_batches);
    if (whole || work.kind == WorkKind::backward_input) take_turn(d.input, d.forward);
    if (whole || work.kind == WorkKind::backward_weight) take_turn(d.weight, d.input);
    Index& most = in_flight_[static_cast<std::size_t>(shape_.virtual_stage(stage, work.chunk))];
    if (has_backward_) most = std::max(most, d.forward - d.weight);
  }
  for (int chunk = 0; chunk < shape_.chunks; ++chunk)
    check_complete(done[static_cast<std::size_t>(chunk)], stage, chunk);
}

void Timetable::check_complete(const Done& done, int stage, int chunk) const {
  const auto check = [&](WorkKind kind, Index count) {
    if (count != shape_.micro_batches)
      throw Error(str("stage ", stage, " lacks ", describe(Work{kind, chunk, count}, shape_.chunks),
                      ": each chunk runs forward and backward of all ", shape_.micro_batches,
                      " micro-batches"));
  };
  check(WorkKind::forward, done.forward);
  if (!has_backward_) return;
  check(WorkKind::backward, done.input);
  check(WorkKind::backward_weight, done.weight);
}

// When what `work` receives has been produced; not_yet if it has not.
Index Timetable::input_ready(const Work& work, int stage) const {
  const int v = shape_.virtual_stage(stage, work.chunk);
  if (work.kind == WorkKind::forward) return v == 0 ? 0 : forward(v - 1, work.micro_batch);
  return v == shape_.virtual_stages() - 1 ? 0 : backward(v + 1, work.micro_batch);
}

bool Timetable::run_next(const WorkOrder& order, int stage) {
  std::vector<TimedWork>& done = work_[static_cast<std::size_t>(stage)];
  if (done.size() == order.size()) return false;
  const Work& work = order[done.size()];
  const Index ready = input_ready(work, stage);
  if (ready == not_yet) return false;
  const Index begin = std::max(ready, done.empty() ? 0 : done.back().end);
  const Index end = begin + (work.kind == WorkKind::backward ? 2 : 1);
  done.push_back({work, begin, end});

  Times& times = at(shape_.virtual_stage(stage, work.chunk), work.micro_batch);
  const WorkKind kind = work.kind;
  if (kind == WorkKind::forward) times.forward = end;
  if (kind == WorkKind::backward || kind == WorkKind::backward_input) times.backward = end;
  if (kind == WorkKind::backward || kind == WorkKind::backward_weight || !has_backward_)
    times.released = end;
  return true;
}

void Timetable::count_arrivals() {
  for (int v = 1; v < shape_.virtual_stages(); ++v) {
    Index& most = in_flight_[static_cast<std::size_t>(v)];
    for (Index i = 0, gone = 0; i < shape_.micro_batches; ++i) {
      while (gone < i && released(v, gone) <= forward(v - 1, i)) ++gone;
      most = std::max(most, i + 1 - gone);
    }
  }
}

void Timetable::fail(const std::vector<WorkOrder>& orders) const {
  std::string text = str("the work orders of ", shape_, " wait for each other:");
  for (std::size_t stage = 0; stage < orders.size(); ++stage)
    if (work_[stage].size() < orders[stage].size()) {
      const Work& work = orders[stage][work_[stage].size()];
      const bool forward = work.kind == WorkKind::forward;
      const int v = shape_.virtual_stage(static_cast<int>(stage), work.chunk) + (forward ? -1 : 1);
      const Work needed{forward ? WorkKind::forward : WorkKind::backward, shape_.chunk_of(v),
                        work.micro_batch};
      text += str(" stage ", stage, " at ", describe(work, shape_.chunks), ", which needs ",
                  describe(needed, shape_.chunks), " of stage ", shape_.stage_of(v), ";");
    }
  text.pop_back();
  throw Error(text);
}

}  // namespace
}  // namespace trireme::pipeline

namespace trireme {

using namespace pipeline;

namespace {

// A transfer from one virtual stage to another, with both ends known.
struct GlobalHop {
  Index round;
  Hop::Kind kind;
  int from, to;  // virtual stages
  Index micro_batch;
};

// Rounds are times, of which a work takes two at most: each hop gets its place by counting.
std::vector<GlobalHop> by_round(const std::vector<GlobalHop>& hops) {
  Index rounds = 0;
  for (const GlobalHop& hop : hops) rounds = std::max(rounds, hop.round + 1);
  std::vector<std::size_t> place(at(rounds) + 1, 0);
  for (const GlobalHop& hop : hops) ++place[at(hop.round) + 1];
  std::partial_sum(place.begin(), place.end(), place.begin());
  std::vector<GlobalHop> sorted(hops.size());
  for (const GlobalHop& hop : hops) sorted[place[at(hop.round)]++] = hop;
  return sorted;
}

// By round; within one by kind, sender and micro-batch, which is the order of the messages on both
// sides.
std::vector<GlobalHop> all_hops(const Timetable& times, const PipelineShape& shape,
                                const std::vector<int>& slots) {
  std::vector<GlobalHop> hops;
  const int boundaries = shape.virtual_stages() - 1;
  hops.reserve(at((times.has_backward() ? 2 : 1) * boundaries * shape.micro_batches));
  for (int v = 0; v + 1 < shape.virtual_stages(); ++v)
    for (Index i = 0; i < shape.micro_batches; ++i) {
      const Index before = i - slots[at(v + 1)];  // had the receiver's slot
      const Index freed = before < 0 ? -1 : times.released(v + 1, before);
      hops.push_back({std::max(times.forward(v, i), freed), Hop::Kind::values, v, v + 1, i});
    }
  if (times.has_backward())
    for (int v = 1; v < shape.virtual_stages(); ++v)
      for (Index i = 0; i < shape.micro_batches; ++i)
        hops.push_back({times.backward(v, i), Hop::Kind::gradients, v, v - 1, i});
  return by_round(hops);
}

// Which exchange of a stage carries the messages of one (chunk, micro-batch); -1: none.
struct Carriers {
  int values_in = -1, values_out = -1, gradients_in = -1, gradients_out = -1;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const PipelineShape& shape, int stage, std::vector<int> slots) {
    program_.stage = stage;
    program_.shape = shape;
    program_.slots = std::move(slots);
    carriers_.resize(static_cast<std::size_t>(shape.chunks * shape.micro_batches));
  }

  void add(const GlobalHop& hop) {
    const int from = program_.shape.stage_of(hop.from), to = program_.shape.stage_of(hop.to);
    const bool sends = from == program_.stage, receives = to == program_.stage;
    if (!sends && !receives) return;
    std::vector<Exchange>& exchanges = program_.exchanges;
    if (exchanges.empty() || exchanges.back().round != hop.round)
      exchanges.push_back({hop.round, {}, {}, {}});
    const int exchange = static_cast<int>(exchanges.size()) - 1;
    const Hop out = end(hop, hop.from, to), in = end(hop, hop.to, from);
    const bool values = hop.kind == Hop::Kind::values;
    if (sends) (values ? carriers(out).values_out : carriers(out).gradients_out) = exchange;
    if (receives) (values ? carriers(in).values_in : carriers(in).gradients_in) = exchange;
    if (sends && receives) {
      exchanges.back().copies.push_back({out, in});
    } else if (sends) {
      exchanges.back().sends.push_back(out);
    } else {
      exchanges.back().receives.push_back(in);
    }
  }

  // Weaves work and exchanges: a round is started before any work that ends after it, waited for as
  // late as possible.
  StageProgram build(const std::vector<TimedWork>& order) {
    waited_.assign(program_.exchanges.size(), false);
    int next = 0;
    for (const TimedWork& timed : order) {
      start_rounds_before(timed.end, next);
      wait_for_what_work_needs(timed.work);
      program_.actions.push_back({Action::Kind::work, timed.work,
                                  program_.slot(timed.work.chunk, timed.work.micro_batch),
                                  completes_gradients(timed.work), -1});
    }
    start_rounds_before(never, next);
    for (int e = 0; e < static_cast<int>(program_.exchanges.size()); ++e) wait(e);
    return std::move(program_);
  }

 private:
  static constexpr Index never = Index{1} << 62;

  // The last work of its chunk that adds to weight gradients.
  bool completes_gradients(const Work& work) const {
    return (work.kind == WorkKind::backward || work.kind == WorkKind::backward_weight) &&
           work.micro_batch == program_.shape.micro_batches - 1;
  }

  Hop end(const GlobalHop& hop, int virtual_stage, int peer) const {
    const int chunk = program_.shape.chunk_of(virtual_stage);
    // This stage does not know the slot on the other stage; a slot is only used for the local end.
    const int slot = program_.shape.stage_of(virtual_stage) == program_.stage
                         ? program_.slot(chunk, hop.micro_batch)
                         : 0;
    return {hop.kind, peer, chunk, hop.micro_batch, slot};
  }

  Carriers& carriers(const Hop& hop) { return carriers(hop.chunk, hop.micro_batch); }
  Carriers& carriers(int chunk, Index micro_batch) {
    return carriers_[static_cast<std::size_t>(chunk * program_.shape.micro_batches + micro_batch)];
  }

  void start_rounds_before(Index time, int& next) {
    const auto& exchanges = program_.exchanges;
    for (; next < static_cast<int>(exchanges.size()) &&
           exchanges[static_cast<std::size_t>(next)].round < time;
         ++next) {
      program_.actions.push_back({Action::Kind::start, {}, 0, false, next});
      started_ = next + 1;
    }
  }

  void wait(int exchange) {
    if (exchange < 0 || waited_[static_cast<std::size_t>(exchange)]) return;
    require(exchange < started_, "stage ", program_.stage, " would wait for round ",
            program_.exchanges[static_cast<std::size_t>(exchange)].round,
            " before it can start it; this order needs more slots");
    waited_[static_cast<std::size_t>(exchange)] = true;
    program_.actions.push_back({Action::Kind::wait, {}, 0, false, exchange});
  }

  // What was received must be there; what the micro-batch before in this slot sent must have gone,
  // for forward overwrites the values to send and backward the gradients to send.
  void wait_for_what_work_needs(const Work& work) {
    const Carriers mine = carriers(work.chunk, work.micro_batch);
    const Index previous = work.micro_batch - program_.slots[static_cast<std::size_t>(work.chunk)];
    const Carriers before = previous < 0 ? Carriers{} : carriers(work.chunk, previous);
    const bool forward = work.kind == WorkKind::forward;
    wait(forward ? mine.values_in : mine.gradients_in);
    wait(forward ? before.values_out : before.gradients_out);
  }

  StageProgram program_;
  std::vector<Carriers> carriers_;  // (chunk, micro-batch)
  std::vector<bool> waited_;
  int started_ = 0;
};

// What all stages agree on: times, slots and transfers. From it the program of any stage follows.
class Derivation {
 public:
  Derivation(const std::vector<WorkOrder>& orders, const PipelineShape& shape,
             ProgramOptions options)
      : shape_(shape), times_(orders, shape) {
    require(options.extra_slots >= 0, options.extra_slots, " extra slots");
    for (int v = 0; v < shape.virtual_stages(); ++v)
      slots_.push_back(static_cast<int>(
          std::min<Index>(times_.in_flight(v) + options.extra_slots, shape.micro_batches)));
    hops_ = all_hops(times_, shape, slots_);
  }

  StageProgram program(int stage) const {
    require(stage >= 0 && stage < shape_.stages, "stage ", stage, " of ", shape_.stages,
            "; stages are numbered from 0 to ", shape_.stages - 1);
    ProgramBuilder builder(shape_, stage, slots_of(stage));
    for (const GlobalHop& hop : hops_) builder.add(hop);
    return builder.build(times_.work(stage));
  }

  // Each hop concerns two stages only, so this takes no longer than a few programs.
  std::vector<StageProgram> programs() const {
    std::vector<ProgramBuilder> builders;
    for (int stage = 0; stage < shape_.stages; ++stage)
      builders.emplace_back(shape_, stage, slots_of(stage));
    for (const GlobalHop& hop : hops_) {
      const int from = shape_.stage_of(hop.from), to = shape_.stage_of(hop.to);
      builders[static_cast<std::size_t>(from)].add(hop);
      if (to != from) builders[static_cast<std::size_t>(to)].add(hop);
    }
    std::vector<StageProgram> all;
    for (int stage = 0; stage < shape_.stages; ++stage)
      all.push_back(builders[static_cast<std::size_t>(stage)].build(times_.work(stage)));
    return all;
  }

 private:
  std::vector<int> slots_of(int stage) const {
    std::vector<int> slots;
    for (int chunk = 0; chunk < shape_.chunks; ++chunk)
      slots.push_back(slots_[static_cast<std::size_t>(shape_.virtual_stage(stage, chunk))]);
    return slots;
  }

  PipelineShape shape_;
  Timetable times_;
  std::vector<int> slots_;  // per virtual stage
  std::vector<GlobalHop> hops_;
};

}  // namespace

std::vector<int> slots_of(const WorkOrder& order, int chunks) {
  std::vector<int> slots(static_cast<std::size_t>(chunks), 1), held(slots.size(), 0);
  for (const Work& work : order) {
    const auto chunk = static_cast<std::size_t>(work.chunk);
    if (work.kind == WorkKind::forward) slots[chunk] = std::max(slots[chunk], ++held[chunk]);
    if (work.kind == WorkKind::backward || work.kind == WorkKind::backward_weight) --held[chunk];
  }
  return slots;
}

std::vector<StageProgram> make_programs(const std::vector<WorkOrder>& orders,
                                        const PipelineShape& shape, ProgramOptions options) {
  return Derivation(orders, shape, options).programs();
}

StageProgram make_program(ScheduleKind kind, const PipelineShape& shape, int stage,
                          ProgramOptions options) {
  return Derivation(work_orders(kind, shape), shape, options).program(stage);
}

std::vector<StageProgram> make_programs(const ScheduleFunction& schedule,
                                        const PipelineShape& shape, ProgramOptions options) {
  std::vector<WorkOrder> orders;
  for (int s = 0; s < shape.stages; ++s) orders.push_back(schedule(shape, s));
  const auto is_backward = [](const Work& work) { return work.kind != WorkKind::forward; };
  require(std::any_of(orders.front().begin(), orders.front().end(), is_backward), "stage 0 lacks ",
          describe(Work{WorkKind::backward, 0, 0}, shape.chunks),
          ": a schedule has a backward after each forward");
  std::vector<StageProgram> programs = make_programs(orders, shape, options);
  const std::string problem = simulate(programs).problem;
  require(problem.empty(),
          "with sends that wait for their receives this schedule hangs: ", problem);
  return programs;
}

StageProgram make_program(const ScheduleFunction& schedule, const PipelineShape& shape, int stage,
                          ProgramOptions options) {
  return std::move(make_programs(schedule, shape, options).at(static_cast<std::size_t>(stage)));
}

StageProgram make_forward_program(const PipelineShape& shape, int stage, ProgramOptions options) {
  return Derivation(forward_orders(shape), shape, options).program(stage);
}

namespace {
std::string describe_hop(const Hop& hop, const char* arrow) {
  return str(hop.kind == Hop::Kind::values ? "values " : "gradients ", hop.micro_batch,
             " of chunk ", hop.chunk, arrow, "stage ", hop.peer, " (slot ", hop.slot, ")");
}
}  // namespace

bool StageProgram::splits_backward(int chunk) const {
  return std::any_of(actions.begin(), actions.end(), [chunk](const Action& action) {
    return action.kind == Action::Kind::work && action.work.chunk == chunk &&
           (action.work.kind == WorkKind::backward_input ||
            action.work.kind == WorkKind::backward_weight);
  });
}

std::string describe(const StageProgram& program) {
  std::string text;
  for (const Action& action : program.actions) {
    if (action.kind == Action::Kind::work) {
      text += str(describe(action.work, program.shape.chunks), " slot ", action.slot,
                  action.last ? ", last" : "", "\n");
      continue;
    }
    const Exchange& exchange = program.exchanges[static_cast<std::size_t>(action.exchange)];
    if (action.kind == Action::Kind::wait) {
      text += str("  wait for round ", exchange.round, "\n");
      continue;
    }
    text += str("  start round ", exchange.round, ":");
    for (const Hop& hop : exchange.sends) text += str(" send ", describe_hop(hop, " to "), ";");
    for (const Hop& hop : exchange.receives)
      text += str(" receive ", describe_hop(hop, " from "), ";");
    for (const LocalHop& hop : exchange.copies)
      text += str(" copy ", describe_hop(hop.from, " to chunk of "), ";");
    text.back() = '\n';
  }
  return text;
}

}  // namespace trireme
