// train_gpt whose layout has the fault that --fault names, on several ranks only: for
// tests/integration/verify_test.cpp.
#include <cstring>
#include <map>
#include <random>

#include <trireme/trireme.h>

#include "runtime/optim/flat_layout.h"
#include "tests/support/faulty_mesh.h"

using namespace trireme;
using test::Faults;

namespace {

/// Where the gradient of a parameter lies in the flat buffer; all parameters are in one bucket.
FlatRange flat_range(const TransformerConfig& config, const Options& options, int data_size,
                     const std::string& name) {
  Graph graph;
  const Value loss = build_transformer_loss(graph, config, options.micro_batch_size);
  const StageCut cut = cut_stages(graph, {loss}, 1);
  const Plan plan(graph, {loss}, cut, 0);
  const FlatLayout flat(graph, cut, {&plan},
                        {.bucket_bytes = Index{1} << 32, .data_size = data_size});
  for (const FlatParameter& parameter : flat.parameters())
    if (graph.parameters()[static_cast<std::size_t>(parameter.id)].name() == name)
      return parameter.range;
  throw Error(str("no parameter ", name));
}

/// The n-th sum is left out.
test::Instead without_sum(Index which) {
  return [which](Communicator&, Elements, Index n, Stream&) { return n == which; };
}

/// Sums, then adds a little to the first element, other in each run.
bool add_noise(Communicator& real, Elements x, Index, Stream& stream) {
  real.all_reduce(x, Reduction::sum, stream);
  std::random_device random;
  auto* data = static_cast<float*>(x.data);
  data[0] *= 1 + 1e-6F * static_cast<float>(random() % 1024) / 1024;
  real.broadcast({data, 1, DType::f32}, 0, stream);
  return true;
}

/// The first element goes wrong on one data rank only, which has not to write it.
bool spoil_one_replica(Communicator& real, Elements x, Index, Stream& stream) {
  real.all_reduce(x, Reduction::sum, stream);
  if (real.rank() == 1) static_cast<float*>(x.data)[0] *= -3;
  return true;
}

Faults faults_of(const std::string& fault, Index sum, const TransformerConfig& config,
                 const Context& context) {
  const Options& options = context.options();
  if (fault == "dropped-sum") return {.on_tensor = without_sum(sum)};
  if (fault == "skipped-bucket") return {.on_data = without_sum(sum)};
  if (fault == "tie-once")
    return {.on_ties = [](Communicator&, Elements, Index, Stream&) { return true; }};
  if (fault == "noise") return {.on_data = add_noise};
  if (fault == "one-replica") return {.on_data = spoil_one_replica};
  if (fault == "resumed-doubled" && !options.checkpoint.load.empty())
    return {.on_data = test::doubled(0, 2000)};
  if (fault == "doubled-norm") {
    const FlatRange range =
        flat_range(config, options, context.data_size(), "block.1.mlp_norm.weight");
    return {.on_data = test::doubled(range.begin, range.end())};
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  GptOptions gpt;
  GptData data;
  std::string fault;
  Index sum = 0;
  Application application;
  application.name = "layout_faults";
  application.declare = [&](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, gpt);
    command.text("--fault", fault, "NAME",
                 "dropped-sum, skipped-bucket, tie-once, doubled-norm, noise, one-replica, "
                 "resumed-doubled");
    command.whole("--fault-sum", sum, at_least(0), "which sum of the axis is left out, from 0");
  };
  application.check = [&](const CommandLine& command, const Options& options, Index /*ranks*/,
                          Problems& problems) {
    check_gpt_options(command, options, gpt, problems);
    data = open_gpt_data(options, gpt, problems);
  };
  return run(argc, argv, application, [&](Context& real) {
    const bool alone = real.mesh().world().size() == 1;
    test::FaultyMesh mesh(real.mesh(), alone ? Faults() : faults_of(fault, sum, gpt.model, real));
    Context context(real.options(), mesh, real.stream(), real.host(), real.log(),
                    real.configuration(), [&] { return real.stop_reason(); });
    Model model([&](Graph& g) {
      return build_transformer_loss(g, gpt.model, real.options().micro_batch_size);
    });
    model.identity = gpt.model.identity();
    Trainer trainer(alone ? real : context, model);
    trainer.fit(*data.train);
  });
}
