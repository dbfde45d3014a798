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
  }
  return "";
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
  if (kind == ScheduleKind::one_f_one_b && shape.chunks > 1)
    return str("1f1b runs one chunk a stage, not ", shape.chunks,
               "; use 1 chunk, or the schedule 'interleaved'");
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
  return grouped_passes(shape, ring_groups(shape)).forward;
}

std::vector<WorkOrder> forward_orders(const PipelineShape& shape) {
  std::vector<WorkOrder> orders;
  for (int stage = 0; stage < shape.stages; ++stage) orders.push_back(forward_order(shape, stage));
  return orders;
}

double ideal_bubble(const PipelineShape& shape) {
  const double ramp = shape.stages - 1;
  return ramp /
         (static_cast<double>(shape.chunks) * static_cast<double>(shape.micro_batches) + ramp);
}

}  // namespace trireme
