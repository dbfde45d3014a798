#include "runtime/pipeline/timetable.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme {

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

// Counts what each chunk has done so far, and derives in_flight_.
void Timetable::check_order(const WorkOrder& order, int stage) {
  struct Done {
    Index forward = 0, input = 0, parameter = 0;
  };
  std::vector<Done> done(static_cast<std::size_t>(shape_.chunks));
  for (const Work& work : order) {
    const std::string what = describe(work, shape_.chunks);
    require(work.chunk >= 0 && work.chunk < shape_.chunks, "stage ", stage, ": ", what,
            " is on chunk ", work.chunk, " of ", shape_.chunks);
    Done& d = done[static_cast<std::size_t>(work.chunk)];
    const bool forward = work.kind == WorkKind::forward;
    const bool input = work.kind == WorkKind::backward || work.kind == WorkKind::backward_input;
    const bool parameter =
        work.kind == WorkKind::backward || work.kind == WorkKind::backward_parameter;
    const auto in_turn = [&](Index& count, Index limit) {
      require(work.micro_batch == count && count < limit, "stage ", stage, ": ", what,
              " is out of turn; the work before it allows ", std::min(count, limit));
      ++count;
    };
    if (forward) in_turn(d.forward, shape_.micro_batches);
    if (input) in_turn(d.input, d.forward);
    if (parameter) in_turn(d.parameter, d.input);
    Index& most = in_flight_[static_cast<std::size_t>(shape_.virtual_stage(stage, work.chunk))];
    if (has_backward_) most = std::max(most, d.forward - d.parameter);
  }
  for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
    const Done& d = done[static_cast<std::size_t>(chunk)];
    require(d.forward == shape_.micro_batches &&
                (!has_backward_ || d.parameter == shape_.micro_batches),
            "stage ", stage, ", chunk ", chunk, ": ", d.forward, " forwards and ", d.parameter,
            " backwards of ", shape_.micro_batches, " micro-batches");
  }
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
  if (kind == WorkKind::backward || kind == WorkKind::backward_parameter || !has_backward_)
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
    if (work_[stage].size() < orders[stage].size())
      text += str(" stage ", stage, " at ",
                  describe(orders[stage][work_[stage].size()], shape_.chunks), ";");
  text.pop_back();
  throw Error(text);
}

}  // namespace trireme
