// What a trace leaves to the compiler, or to a name that is there twice.
#include "runtime/graph/trace_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer.h"
#include "trireme/nn/nn.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Model>
std::vector<std::string> warnings_of(Model&& model) {
  Graph graph;
  model(graph, graph.input("x", Spec({4, 8}, DType::f32)));
  return warnings_of_trace(graph);
}

TEST(TraceWarnings, DropoutsOfOneScopeSideBySideAreNamed) {
  EXPECT_THAT(
      warnings_of([](Graph&, Value x) { return dropout(x, 0.5f, 1) + dropout(x, 0.5f, 1); }),
      ElementsAre(AllOf(HasSubstr("dropout and dropout#2 draw their numbers"),
                        HasSubstr("g.scope(NAME, ...)"))));
}

TEST(TraceWarnings, DropoutsOneBehindTheOtherOrInScopesAreInOrder) {
  EXPECT_THAT(warnings_of([](Graph&, Value x) {
                for (int i = 0; i < 3; ++i) x = x + dropout(gelu_erf(x), 0.5f, 1);
                return x;
              }),
              IsEmpty());
  EXPECT_THAT(warnings_of([](Graph& g, Value x) {
                const auto drop = [&](const char* name) {
                  return g.scope(name, [&] { return dropout(x, 0.5f, 1); });
                };
                return drop("a") + drop("b");
              }),
              IsEmpty());
}

TEST(TraceWarnings, InputsThatAreReadInAnotherOrderAreNamed) {
  const auto model = [](Graph& g, Value x, bool early) {
    Value y = early ? x : Value();
    const Value other = g.input("y", Spec({4, 8}, DType::f32));
    y = gelu_erf(early ? x : other);
    return squared_error(y, early ? other : x);
  };
  EXPECT_THAT(warnings_of([&](Graph& g, Value x) { return model(g, x, true); }), IsEmpty());
  EXPECT_THAT(warnings_of([&](Graph& g, Value x) { return model(g, x, false); }),
              ElementsAre(HasSubstr("input 'x' is declared before 'y' and read after it")));
}

TEST(TraceWarnings, LayersOfOneNameAreNamed) {
  EXPECT_THAT(warnings_of([](Graph& g, Value x) {
                return g.block("b", 0, [&] {
                  for (int i = 0; i < 3; ++i) x = linear(x, "fc", 8);
                  return x;
                });
              }),
              ElementsAre(AllOf(HasSubstr("the weights 'b.0.fc.weight' are one for 3 layers"),
                                HasSubstr("b.0/fc/linear, b.0/fc/linear#2"))));
}

TEST(TraceWarnings, NormsOfOneNameAreNamed) {
  const auto twice = [](Graph& g, Value x) {
    return g.block("b", 0, [&] { return rms_norm(gelu_erf(rms_norm(x, "n")), "n"); });
  };
  EXPECT_THAT(warnings_of(twice),
              ElementsAre(HasSubstr("the weights 'b.0.n.weight' are one for 2 layers")));
  EXPECT_THAT(warnings_of([](Graph&, Value x) {
                return layer_norm(x, "n") + layer_norm(gelu_erf(x), "n");
              }),
              ElementsAre(HasSubstr("the weights 'n.weight' are one for 2 layers")));
  EXPECT_THAT(warnings_of([](Graph&, Value x) { return rms_norm(rms_norm(x, "a"), "b"); }),
              IsEmpty());
}

TEST(TraceWarnings, WeightsThatAreSharedByTheirValueAreMeant) {
  EXPECT_THAT(warnings_of([](Graph& g, Value x) {
                const Value w = g.parameter("w", {8, 8}, replicated(), normal(1));
                for (int i = 0; i < 3; ++i) x = linear(x, w);
                return x;
              }),
              IsEmpty());
}

TEST(TraceWarnings, OfTheModelsThatComeAlongThereAreNone) {
  for (const char* name : {"tiny", "qwen3-0.6b"}) {
    TransformerConfig config = preset(name);
    config.num_layers = 2;
    config.seq_length = 8;
    config.hidden_dropout = 0.1f;
    Graph graph;
    build_transformer_loss(graph, config, 1);
    EXPECT_THAT(warnings_of_trace(graph), IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace trireme
