// Outputs, metrics and a schedule of one's own over MPI, on as many axes as there are ranks for:
// as on one rank.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/train/sines.h"
#include "tests/train/transformer_rank.h"

namespace trireme {
namespace {

Value measured(Graph& g, Index batch) {
  const Value x = mlp_blocks(g, batch);
  g.metric("power", sum(x * x));
  return squared_error(x, g.input("y", {batch, width}));
}

WorkOrder halves(const PipelineShape& shape, int /*stage*/) {
  WorkOrder order;
  for (const WorkKind kind :
       {WorkKind::forward, WorkKind::backward_input, WorkKind::backward_weight})
    for (Index i = 0; i < shape.micro_batches; ++i) order.push_back({kind, 0, i});
  return order;
}

/// The losses and metrics of three steps and an evaluation; on rank 0 the outputs of 13 samples.
struct Numbers {
  std::vector<double> steps, outputs;
};

Numbers train(Mesh& mesh) {
  const MeshShape& shape = mesh.shape();
  Options options = options_for(
      {shape.size(Axis::data), shape.size(Axis::pipeline), shape.size(Axis::tensor), 1, 1, false});
  options.global_batch_size = 24;
  options.own_schedule = halves;
  const std::unique_ptr<Device> device = open_cpu();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Log log(mesh.rank(), LogLevel::quiet);
  Context context(options, mesh, *stream, log);
  Model model([](Graph& g) { return measured(g, 1); });
  model.result = [](Graph& g) { return mlp_blocks(g, 1); };
  Trainer trainer(context, model);
  Sines data;
  Numbers numbers;
  for (int i = 0; i < 3; ++i) {
    const StepMetrics step = trainer.step(data);
    numbers.steps.insert(numbers.steps.end(), {step.loss, step.metrics[0].value});
  }
  numbers.steps.push_back(trainer.evaluate(data, 2));
  numbers.steps.push_back(trainer.evaluation_metrics()[0].value);
  for (const Index samples : {13, 61}) {
    numbers.outputs.clear();
    trainer.outputs(data, samples, [&](Index, const Tensor& row) {
      numbers.outputs.insert(numbers.outputs.end(), row.as<float>(), row.as<float>() + width);
    });
  }
  return numbers;
}

TEST(OwnModel, IsTrainedMeasuredAndAskedOverMpiAsOnOneRank) {
  const std::unique_ptr<Mesh> alone = make_self_mesh();
  const Numbers one = train(*alone);
  const std::unique_ptr<Mesh> mesh =
      mpi_session().make_mesh(testing::widest_mesh(mpi_session().size()));
  const Numbers all = train(*mesh);
  ASSERT_EQ(all.steps.size(), one.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i)
    EXPECT_NEAR(all.steps[i] / one.steps[i], 1, 5e-7) << i;
  ASSERT_EQ(all.outputs.size(), mesh->rank() == 0 ? static_cast<std::size_t>(61 * width) : 0);
  for (std::size_t i = 0; i < all.outputs.size(); ++i)
    EXPECT_NEAR(all.outputs[i], one.outputs[i], 3e-6) << i;
}

}  // namespace
}  // namespace trireme
