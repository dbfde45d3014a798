#include "runtime/train/inference/output_batch.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "trireme/core/bf16.h"

namespace trireme::train {

OutputBatch::OutputBatch(const PlannedOutputs& plan, const Context& context)
    : plan_(plan),
      inputs_(plan.inputs, context.device(), context.options().check_finite),
      stream_(context.stream()),
      results_(context.device().allocate_pinned(plan.result_bytes())),
      rows_(allocate_host(plan.row_bytes())),
      computed_(context.device().make_event()) {}

void OutputBatch::on_result(Index number, const Tensor& result) {
  if (plan_.makes)
    stream_.copy(results_.data() + number * result.bytes(), result.data, result.bytes());
}

void OutputBatch::queued() {
  inputs_.queued(stream_);
  computed_->record(stream_);
}

void OutputBatch::convert_results() {
  computed_->synchronize();
  const Index count = plan_.samples * plan_.sample.count();
  if (plan_.result.dtype == DType::bf16) {
    const auto* results = reinterpret_cast<const Bf16*>(results_.data());
    std::transform(results, results + count, reinterpret_cast<float*>(rows_.data()), to_float);
  } else if (plan_.result.dtype == DType::f64) {
    const auto* results = reinterpret_cast<const double*>(results_.data());
    std::transform(results, results + count, reinterpret_cast<float*>(rows_.data()),
                   [](double x) { return static_cast<float>(x); });
  } else {
    std::memcpy(rows_.data(), results_.data(), static_cast<std::size_t>(count) * sizeof(float));
  }
}

const float* OutputBatch::collect(int data, Index samples, const Context& context) {
  const MeshShape& shape = context.mesh().shape();
  const int last_stage = plan_.pass.program().shape.last_stage();
  const int owner = shape.rank_at({{Axis::data, data}, {Axis::pipeline, last_stage}});
  const int mine = context.mesh().rank();
  if (mine == owner) convert_results();
  if (owner != 0) {
    const Host& host = context.host();
    const Message sent{0, rows_.data(), samples * plan_.sample.bytes()},
        received{owner, sent.data, sent.bytes};
    const auto only = [mine](const Message& message, int rank) {
      return std::span(&message, mine == rank ? 1 : 0);
    };
    host.world().exchange(only(sent, owner), only(received, 0), host.stream);
  }
  return reinterpret_cast<const float*>(rows_.data());
}

}  // namespace trireme::train
