#include "trireme/pipeline/schedule.h"

#include <algorithm>
#include <array>

#include "trireme/core/error.h"
#include "trireme/core/named_values.h"

namespace trireme {

namespace {

// A stage's forwards and backwards apart, each in its order; schedules differ in these and in how
// they are merged.
struct Passes {
  WorkOrder forward, backward;
};

// Micro-batches pass in groups: all chunks of one group, then the next group. Forward takes the
// chunks upwards, backward downwards.
Passes grouped_passes(const PipelineShape& shape, const std::vector<Index>& groups) {
  Passes passes;
  Index first = 0;
  for (const Index size : groups) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (Index i = first; i < first + size; ++i) {
        passes.forward.push_back({WorkKind::forward, chunk, i});
        passes.backward.push_back({WorkKind::backward, shape.chunks - 1 - chunk, i});
      }
    first += size;
  }
  return passes;
}

// Groups of as many micro-batches as there are stages: a group's first micro-batch has then passed
// around the ring just when the next chunk needs it. The remainder joins the first group; at the
// end it would wait for itself.
std::vector<Index> ring_groups(const PipelineShape& shape) {
  if (shape.micro_batches <= shape.stages) return {shape.micro_batches};
  std::vector<Index> groups(static_cast<std::size_t>(shape.micro_batches / shape.stages),
                            shape.stages);
  groups.front() += shape.micro_batches % shape.stages;
  return groups;
}

// `warm_up` forwards, then one forward and one backward alternately, then the remaining backwards.
WorkOrder merge(const Passes& passes, Index warm_up) {
  const auto count = static_cast<Index>(passes.forward.size());
  warm_up = std::min(warm_up, count);
  WorkOrder order(passes.forward.begin(), passes.forward.begin() + warm_up);
  for (Index i = warm_up; i < count; ++i) {
    order.push_back(passes.forward[static_cast<std::size_t>(i)]);
    order.push_back(passes.backward[static_cast<std::size_t>(i - warm_up)]);
  }
  order.insert(order.end(), passes.backward.end() - warm_up, passes.backward.end());
  return order;
}

WorkOrder gpipe(const PipelineShape& shape) {
  const Passes passes = grouped_passes(shape, {shape.micro_batches});
  return merge(passes, static_cast<Index>(passes.forward.size()));
}

WorkOrder one_f_one_b(const PipelineShape& shape, int stage) {
  return merge(grouped_passes(shape, {shape.micro_batches}), shape.stages - 1 - stage);
}

// 1f1b with backwards in halves, and the weight gradients of stage s delayed by s micro-batches:
// while the gradients of the first micro-batches pass through the stages, no stage makes others
// wait for what only it needs. All stages then keep as many micro-batches as the first of 1f1b.
WorkOrder zero_bubble(const PipelineShape& shape, int stage) {
  if (stage == 0) return one_f_one_b(shape, stage);  // no stage waits for its gradients
  WorkOrder order;
  const Index delay = stage;
  for (const Work& work : one_f_one_b(shape, stage)) {
    const bool forward = work.kind == WorkKind::forward;
    order.push_back({forward ? WorkKind::forward : WorkKind::backward_input, 0, work.micro_batch});
    if (!forward && work.micro_batch >= delay)
      order.push_back({WorkKind::backward_weight, 0, work.micro_batch - delay});
  }
  for (Index i = std::max<Index>(0, shape.micro_batches - delay); i < shape.micro_batches; ++i)
    order.push_back({WorkKind::backward_weight, 0, i});
  return order;
}

// The order of one stage under zero_bubble_v, with as many micro-batches as fill the pipeline.
// Those that are not there are left out.
class VOrder {
 public:
  VOrder(const PipelineShape& shape, int stage) : shape_(shape), stage_(stage) {}

  // Forwards until the first gradient comes; a cycle of all six works of the two chunks; the last
  // gradients of inputs, then those of weights that were put off.
  WorkOrder make() {
    const Index down = stage_, up = shape_.stages - stage_;  // hops to the first stage and the turn
    const Index count = std::max<Index>(shape_.micro_batches, 2 * shape_.stages - 1);
    repeat(2 * up - 1, {{WorkKind::forward, 0}});
    repeat(down, {{WorkKind::forward, 1}, {WorkKind::forward, 0}});
    repeat(up, {{WorkKind::forward, 1}, input(1), weight(1)});
    repeat(
        count - shape_.stages,
        {input(0), weight(0), {WorkKind::forward, 0}, {WorkKind::forward, 1}, input(1), weight(1)});
    repeat(down, {input(0), input(1)});
    repeat(up, {input(0), weight(0)});
    repeat(down, {weight(1)});
    repeat(down, {weight(0)});
    return std::move(order_);
  }

 private:
  struct Kind {
    WorkKind kind;
    int chunk;
  };
  static Kind input(int chunk) { return {WorkKind::backward_input, chunk}; }
  static Kind weight(int chunk) { return {WorkKind::backward_weight, chunk}; }

  void repeat(Index times, const std::vector<Kind>& kinds) {
    for (Index i = 0; i < times; ++i)
      for (const Kind& kind : kinds) add(kind);
  }

  // No stage waits for gradients of chunk 0 on the first one: there they are made at once.
  void add(const Kind& kind) {
    Index& next = next_[static_cast<std::size_t>(kind.kind)][static_cast<std::size_t>(kind.chunk)];
    const Index micro_batch = next++;
    const bool whole = stage_ == 0 && kind.chunk == 0;
    if (micro_batch >= shape_.micro_batches || (whole && kind.kind == WorkKind::backward_weight))
      return;
    order_.push_back(
        {whole && kind.kind == WorkKind::backward_input ? WorkKind::backward : kind.kind,
         kind.chunk, micro_batch});
  }

  PipelineShape shape_;
  int stage_;
  std::array<std::array<Index, 2>, 4> next_{};  // kind of work, chunk
  WorkOrder order_;
};

// The last stage starts its first backward once the first group has reached its last chunk; each
// stage before it runs two forwards more until then, for the value reaches it one hop earlier and
// the gradient one hop later.
WorkOrder interleaved(const PipelineShape& shape, int stage) {
  if (shape.chunks == 1) return one_f_one_b(shape, stage);
  const std::vector<Index> groups = ring_groups(shape);
  return merge(grouped_passes(shape, groups),
               2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * groups.front());
}

}  // namespace

std::vector<ScheduleKind> all_schedules() {
  std::vector<ScheduleKind> kinds;
  for (const auto& [word, kind] : named_values<ScheduleKind>()) kinds.push_back(kind);
  return kinds;
}

const char* name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zero_bubble:
      return "zero-bubble";
    case ScheduleKind::zero_bubble_v:
      return "zero-bubble-v";
  }
  return "";
}

Route route_of(ScheduleKind kind) {
  return kind == ScheduleKind::zero_bubble_v ? Route::v : Route::ring;
}

ScheduleKind schedule_from_name(std::string_view wanted) {
  std::string known;
  for (const ScheduleKind kind : all_schedules()) {
    if (wanted == name(kind)) return kind;
    known += str(known.empty() ? "" : ", ", name(kind));
  }
  throw Error(str("no schedule is called '", wanted, "'; there are: ", known));
}

std::ostream& operator<<(std::ostream& out, const PipelineShape& shape) {
  return out << shape.stages << " stages x " << shape.chunks << " chunks x " << shape.micro_batches
             << " micro-batches";
}

std::string describe(const Work& work, int chunks) {
  constexpr std::array letters{'F', 'B', 'I', 'W'};
  std::string text = str(letters[static_cast<std::size_t>(work.kind)], work.micro_batch);
  if (chunks > 1) text += static_cast<char>('a' + work.chunk);
  return text;
}

std::string schedule_problem(ScheduleKind kind, const PipelineShape& shape) {
  if (shape.stages < 1 || shape.chunks < 1 || shape.micro_batches < 1)
    return str("a pipeline of ", shape, ": each count must be at least 1");
  const bool one_chunk = kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::zero_bubble;
  if (one_chunk && shape.chunks > 1)
    return str(name(kind), " runs one chunk a stage, not ", shape.chunks,
               "; use 1 chunk, or the schedule 'interleaved'");
  if (kind == ScheduleKind::zero_bubble_v && shape.chunks != 2)
    return str(name(kind), " runs two chunks a stage, not ", shape.chunks,
               "; use 2 chunks, or the schedule '",
               shape.chunks == 1 ? "zero-bubble'" : "interleaved'");
  if (shape.route != route_of(kind))
    return str(name(kind), " takes another PipelineShape::route: that of route_of()");
  return "";
}

WorkOrder work_order(ScheduleKind kind, const PipelineShape& shape, int stage) {
  const std::string problem = schedule_problem(kind, shape);
  require(problem.empty(), problem);
  require(stage >= 0 && stage < shape.stages, "stage ", stage, " of ", shape.stages,
          "; stages are numbered from 0 to ", shape.stages - 1);
  switch (kind) {
    case ScheduleKind::gpipe:
      return gpipe(shape);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b(shape, stage);
    case ScheduleKind::interleaved:
      return interleaved(shape, stage);
    case ScheduleKind::zero_bubble:
      return zero_bubble(shape, stage);
    case ScheduleKind::zero_bubble_v:
      return VOrder(shape, stage).make();
  }
  throw Error("unknown schedule");
}

std::vector<WorkOrder> work_orders(ScheduleKind kind, const PipelineShape& shape) {
  std::vector<WorkOrder> orders;
  for (int stage = 0; stage < std::max(shape.stages, 1); ++stage)
    orders.push_back(work_order(kind, shape, stage));
  return orders;
}

WorkOrder forward_order(const PipelineShape& shape, int stage) {
  require(stage >= 0 && stage < shape.stages, "stage ", stage, " of ", shape.stages,
          "; stages are numbered from 0 to ", shape.stages - 1);
  if (shape.route == Route::ring || shape.chunks != 2)
    return grouped_passes(shape, ring_groups(shape)).forward;
  // A value comes back after a hop to the turn and one from it for each stage; until then others
  // of chunk 0 run.
  Passes passes;
  for (Index i = 0; i < shape.micro_batches; ++i) {
    passes.forward.push_back({WorkKind::forward, 0, i});
    passes.backward.push_back({WorkKind::forward, 1, i});
  }
  return merge(passes, 2 * (shape.stages - 1 - stage));
}

std::vector<WorkOrder> forward_orders(const PipelineShape& shape) {
  std::vector<WorkOrder> orders;
  for (int stage = 0; stage < shape.stages; ++stage) orders.push_back(forward_order(shape, stage));
  return orders;
}

double ideal_bubble(ScheduleKind kind, const PipelineShape& shape) {
  const double ramp = shape.stages - 1;
  const double work = static_cast<double>(shape.chunks) * static_cast<double>(shape.micro_batches);
  if (kind != ScheduleKind::zero_bubble && kind != ScheduleKind::zero_bubble_v)
    return ramp / (work + ramp);
  // In units of a forward of one chunk. With few micro-batches the first stage waits for the first
  // gradient.
  const double busy = 3 * work, chunks = shape.chunks;
  const double makespan = std::max(busy + ramp, 2 * work + chunks * (2 * ramp + 1));
  return 1 - busy / makespan;
}

}  // namespace trireme
