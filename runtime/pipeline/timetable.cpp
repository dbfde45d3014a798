#include "runtime/pipeline/timetable.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::pipeline {

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

}  // namespace trireme::pipeline
