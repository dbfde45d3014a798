// What ranks write of models that people train: every byte once, and alike much on each rank.
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/train/planned_model.h"

namespace trireme {
namespace {

struct Shape3 {
  int data, pipeline, tensor, chunks;
};

/// Bytes that each rank writes, by rank.
std::vector<Index> written_bytes(const TransformerConfig& config, const Shape3& shape,
                                 bool sharded) {
  Options options;
  options.tensor_size = shape.tensor;
  options.pipeline_size = shape.pipeline;
  options.chunks = shape.chunks;
  std::mutex mutex;
  std::vector<Index> bytes(static_cast<std::size_t>(shape.data * shape.pipeline * shape.tensor));
  run_on_threads(MeshShape(shape.data, shape.pipeline, shape.tensor), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    const Context context(options, mesh, *stream, log);
    const PlannedModel planned =
        plan_training([&](Graph& g) { return build_transformer_loss(g, config, 1); }, context);
    FlatOptions flat_options;
    flat_options.data_rank = mesh.coordinate(Axis::data);
    flat_options.data_size = shape.data;
    flat_options.update = sharded ? Update::sharded : Update::replicated;
    const FlatParameters flat(*planned.graph, planned.cut, planned.pointers(), flat_options);
    Index mine = 0;
    for (const Piece& piece : planned_pieces(flat, options.optimizer, mesh.rank() == 0))
      mine += piece.bytes();
    const std::lock_guard lock(mutex);
    bytes[static_cast<std::size_t>(mesh.rank())] = mine;
  });
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
}  // namespace trireme
