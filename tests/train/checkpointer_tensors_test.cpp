// What ranks write of models that people train: every byte once, and alike much on each rank.
#include <map>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/rank_plan/planned_model.h"

namespace trireme::checkpoint {
namespace {

struct Shape3 {
  int data, pipeline, tensor, chunks;
};

/// Bytes that each rank writes, by rank.
std::vector<Index> written_bytes(const TransformerConfig& config, const Shape3& shape,
                                 bool sharded) {
  TrainingSpec spec;
  spec.mesh = MeshShape(shape.data, shape.pipeline, shape.tensor);
  spec.chunks = shape.chunks;
  spec.update = sharded ? Update::sharded : Update::replicated;
  const std::unique_ptr<Device> device = open_cpu();
  const auto trace = [&](Graph& g) { return build_transformer_loss(g, config, 1); };
  std::vector<Index> bytes;
  for (int rank = 0; rank < spec.mesh.size(); ++rank) {
    const PlannedModel planned = plan_training(trace, {spec, rank, device->traits()});
    const FlatLayout flat(*planned.graph, planned.cut, planned.pointers(),
                          flat_options(spec, rank));
    bytes.push_back(0);
    for (const Piece& piece : planned_pieces(flat, spec.optimizer, rank == 0))
      bytes.back() += piece.bytes();
  }
  return bytes;
}

TEST(CheckpointerTensors, EveryByteIsWrittenOnceAndTheRanksOfAStageWriteAlikeMuch) {
  for (const char* model : {"gpt2-124m", "llama-1b"})
    for (const Shape3& shape : {Shape3{1, 1, 1, 1},
                                {4, 1, 1, 1},
                                {1, 1, 4, 1},
                                {2, 1, 2, 1},
                                {2, 2, 2, 1},
                                {2, 2, 1, 2},
                                {1, 4, 2, 1}})
      for (const bool sharded : {false, true}) {
        SCOPED_TRACE(str(model, ": data ", shape.data, " pipeline ", shape.pipeline, " tensor ",
                         shape.tensor, sharded ? " sharded" : ""));
        const std::vector<Index> bytes = written_bytes(preset(model), shape, sharded);
        const MeshShape mesh(shape.data, shape.pipeline, shape.tensor);
        std::map<int, std::pair<Index, Index>> stages;  // sum, largest
        Index all = 0;
        for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
          auto& [sum, largest] = stages[mesh.coordinate(static_cast<int>(rank), Axis::pipeline)];
          sum += bytes[rank];
          largest = std::max(largest, bytes[rank]);
          all += bytes[rank];
        }
        EXPECT_EQ(all, 12 * preset(model).parameter_count() + 5 * 8);
        for (const auto& [stage, load] : stages) {
          const double mean = static_cast<double>(load.first) / (shape.data * shape.tensor);
          EXPECT_LE(static_cast<double>(load.second) / mean, 1.1) << "stage " << stage;
        }
      }
}

}  // namespace
}  // namespace trireme::checkpoint
