// What ops say of their work (Op::bytes, Op::flops and those of backward), by way of the plan that
// adds it up, against closed formulas.
#include <functional>

#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "runtime/graph/compile/plan.h"

namespace trireme {
namespace {

using Phase = StepWork::Phase;

constexpr Index work_rows = 6, channels = 8, outputs = 10;
constexpr double R = work_rows, C = channels, O = outputs;

/// The work of a training plan, looked up by op and phase; each is there once.
class Work {
 public:
  explicit Work(const std::function<Value(Graph&)>& trace, int tensor_size = 1,
                DType compute = DType::f32, PlanOptions::Mode mode = PlanOptions::Mode::training) {
    Graph graph(0, tensor_size, compute);
    const Value loss = trace(graph);
    PlanOptions options;
    options.mode = mode;
    all_ = Plan(graph, {loss}, cut_stages(graph, {loss}, 1), 0, options).work();
  }
  const StepWork& at(const std::string& op, Phase phase) const {
    const StepWork* found = nullptr;
    for (const StepWork& work : all_) {
      if (work.op != op || work.phase != phase) continue;
      EXPECT_EQ(found, nullptr) << op << ' ' << name(phase) << " is there twice";
      found = &work;
    }
    if (found == nullptr) throw Error(op + " " + name(phase) + " is not there");
    return *found;
  }
  double bytes(const std::string& op, Phase phase) const { return at(op, phase).bytes; }
  double flops(const std::string& op, Phase phase) const { return at(op, phase).flops; }

 private:
  std::vector<StepWork> all_;
};

/// With a gradient, and with nothing behind it that would be added to.
Value parameter(Graph& g, const std::string& name, const Shape& shape) {
  return g.parameter(name, shape, replicated(), normal(1));
}
Value compared(Graph& g, Value y) { return squared_error(y, g.input("target", y.shape())); }

TEST(Work, LinearHasThreeProducts) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Work work(
        [](Graph& g) {
          const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
          return compared(g, linear(x, "layer", outputs, {.bias = Bias::zeros}));
        },
        1, type);
    const auto e = static_cast<double>(size_bytes(type));
    EXPECT_EQ(work.flops("linear", Phase::forward), 2 * R * C * O);
    EXPECT_EQ(work.bytes("linear", Phase::forward), e * (R * C + C * O + O + R * O));
    EXPECT_EQ(work.flops("linear", Phase::backward), 4 * R * C * O);
    EXPECT_EQ(work.bytes("linear", Phase::backward),
              e * (2 * R * O + R * C + C * O + R * C) + 2 * 4 * (C * O + O));
  }
}

TEST(Work, TheFirstLayerHasNoGradientOfItsInput) {
  const Work work([](Graph& g) {
    return compared(g, linear(g.input("x", {work_rows, channels}), "l", outputs));
  });
  EXPECT_EQ(work.flops("linear", Phase::backward), 2 * R * C * O);
  EXPECT_EQ(work.bytes("linear", Phase::backward), 4 * (R * O + R * C) + 2 * 4 * (C * O + O));
}

TEST(Work, GeluRidesOnTheProductsOfItsNeighbours) {
  const Work work([](Graph& g) {
    const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
    return compared(g, gelu_mlp(x, {"up", outputs}, {.bias = Bias::none}, {"down", channels},
                                {.bias = Bias::none}));
  });
  const double product = 2 * R * C * O, gelu = 10 * R * O;
  EXPECT_EQ(work.flops("linear_gelu", Phase::forward), product + gelu);
  EXPECT_EQ(work.bytes("linear_gelu", Phase::forward), 4 * (R * C + C * O + 2 * R * O));
  EXPECT_EQ(work.flops("linear_gelu", Phase::backward), 2 * product);
  EXPECT_EQ(work.bytes("linear_gelu", Phase::backward),
            4 * (2 * R * O + R * C + C * O + R * C) + 2 * 4 * C * O);
  EXPECT_EQ(work.flops("gelu_linear", Phase::forward), product);
  EXPECT_EQ(work.bytes("gelu_linear", Phase::forward), 4 * (R * O + C * O + R * C));
  EXPECT_EQ(work.flops("gelu_linear", Phase::backward), 2 * product + gelu);
  EXPECT_EQ(work.bytes("gelu_linear", Phase::backward),
            4 * (2 * R * C + R * O + R * O + C * O + R * O) + 2 * 4 * C * O);
}

TEST(Work, AttentionIsCausalAndItsBackwardHasFiveProducts) {
  constexpr Index sequence = 3, query = 4, kv = 2, head = 2, width = (query + 2 * kv) * head;
  const Work work([](Graph& g) {
    const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
    const Value qkv = linear(x, "qkv", width, {.bias = Bias::none});
    return compared(g, causal_attention(qkv, sequence, {query, kv, head}));
  });
  const double batch = R / sequence, pairs = sequence * (sequence + 1) / 2.0;
  const double forward = 2 * (2 * batch * query * head * pairs);
  EXPECT_EQ(work.flops("causal_attention", Phase::forward), forward);
  EXPECT_EQ(work.flops("causal_attention", Phase::backward), 2.5 * forward);
  const double y = 4 * R * query * head, statistics = 4 * R * query;
  EXPECT_EQ(work.bytes("causal_attention", Phase::forward), 4 * R * width + y + statistics);
  EXPECT_EQ(work.bytes("causal_attention", Phase::backward),
            2 * 4 * R * width + 2 * y + statistics);
}

TEST(Work, TheHeadInPiecesReadsItsWeightsForEachAndMakesItsLossInBackward) {
  constexpr Index pieces = 3;
  const auto trace = [](Graph& g) {
    const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
    return linear_cross_entropy(x, parameter(g, "table", {outputs, channels}),
                                g.input("targets", Spec({work_rows}, DType::i32)), outputs, pieces);
  };
  const Work work(trace, 1, DType::bf16);
  EXPECT_THROW(work.at("linear_cross_entropy", Phase::forward), Error);
  EXPECT_EQ(work.flops("linear_cross_entropy", Phase::backward), R * O * (3 * 2 * C + 2 * 8));
  EXPECT_EQ(work.bytes("linear_cross_entropy", Phase::backward),
            2 * 3 * R * C + 4 * R + 4 * R + 8 + 2 * pieces * 2 * O * C + 6 * 2 * R * O +
                2 * pieces * 4 * O * C);

  const Work alone(trace, 1, DType::f32, PlanOptions::Mode::forward_only);
  EXPECT_EQ(alone.flops("linear_cross_entropy", Phase::forward), R * O * (2 * C + 8));
  EXPECT_EQ(alone.bytes("linear_cross_entropy", Phase::forward),
            4 * R * C + 4 * R + 4 * R + 8 + pieces * 4 * O * C + 2 * 4 * R * O);
}

TEST(Work, CrossEntropyReadsItsLogitsOnceAWay) {
  const Work work([](Graph& g) {
    const Value logits = linear(g.input("x", {work_rows, channels}), "l", outputs);
    return cross_entropy(logits, g.input("targets", Spec({work_rows}, DType::i32)), outputs);
  });
  EXPECT_EQ(work.flops("cross_entropy", Phase::forward), 8 * R * O);
  EXPECT_EQ(work.bytes("cross_entropy", Phase::forward), 4 * R * O + 4 * R + 8 + 4 * R);
  EXPECT_EQ(work.bytes("cross_entropy", Phase::backward), 2 * 4 * R * O + 4 * R + 4 * R + 8);
}

TEST(Work, EmbeddingsMoveRowsAndNotTheirTable) {
  constexpr Index table_rows = 50, sequence = 3, positions = 20;
  const Work work(
      [](Graph& g) {
        const Value x = embedding(g.input("tokens", Spec({2, 3}, DType::i32)),
                                  parameter(g, "table", {table_rows, channels}));
        return compared(g, add_positions(x, parameter(g, "at", {positions, channels}), sequence));
      },
      1, DType::bf16);
  EXPECT_EQ(work.bytes("embedding", Phase::forward), 4 * R + 2 * 2 * R * C);
  EXPECT_EQ(work.bytes("embedding", Phase::backward), 4 * R + 2 * R * C + 2 * 4 * R * C);
  EXPECT_EQ(work.flops("embedding", Phase::backward), R * C);
  EXPECT_EQ(work.bytes("add_positions", Phase::forward), 2 * (2 * R * C + sequence * C));
  EXPECT_EQ(work.bytes("add_positions", Phase::backward), 2 * R * C + 2 * 4 * sequence * C);
}

TEST(Work, ANormThatComesWithAnAdditionIsCountedOnceAWay) {
  const Work work([](Graph& g) {
    const Value x = rms_norm(g.input("x", {work_rows, channels}), "first");
    const SumAndNorm both = add_layer_norm(x, dropout(x, 0.5f, 3), "second");
    return compared(g, both.normed);
  });
  EXPECT_EQ(work.bytes("rms_norm", Phase::forward), 4 * (2 * R * C + C + R));
  EXPECT_EQ(work.bytes("add_layer_norm", Phase::forward), 4 * (4 * R * C + 2 * C + 2 * R));
  EXPECT_THROW(work.at("layer_norm", Phase::forward), Error);
  EXPECT_THROW(work.at("add_layer_norm", Phase::backward), Error);
  EXPECT_THROW(work.at("zero", Phase::step), Error);  // nothing reads that of its norm
  EXPECT_EQ(work.bytes("layer_norm", Phase::backward), 4 * (3 * R * C + C + 2 * R) + 2 * 4 * 2 * C);
  EXPECT_EQ(work.flops("layer_norm", Phase::backward), 2 * 8 * R * C);
  EXPECT_EQ(work.bytes("rms_norm", Phase::backward), 4 * (2 * R * C + C + R) + 2 * 4 * C);
  EXPECT_EQ(work.flops("rms_norm", Phase::backward), 8 * R * C);
  EXPECT_EQ(work.bytes("dropout", Phase::forward), 2 * 4 * R * C);
  EXPECT_EQ(work.flops("dropout", Phase::backward), 20 * R * C);
  EXPECT_EQ(work.bytes("dropout", Phase::backward), (2 + 1) * 4 * R * C);  // added to that of x
}

TEST(Work, ActivationsAndRotationsAreSweepsAndViewsNothing) {
  static constexpr Index sequence = 3, head = 2;
  constexpr Index heads = 2;
  const Work work([](Graph& g) {
    const Value x = linear(g.input("x", {work_rows, channels}), "l", channels);
    const Value y = rotary(x, std::make_shared<RotaryTable>(sequence, head, 1e4f), heads);
    const Value z = swiglu(contiguous(slice(y, 1, 0, channels - 2)));
    return compared(g, gelu_erf(z));
  });
  const double turned = R * heads * head, D = C - 2;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ(work.flops("rotary", phase), 3 * turned);
    EXPECT_EQ(work.bytes("rotary", phase), 4 * (2 * turned + sequence * head));
  }
  EXPECT_EQ(work.bytes("swiglu", Phase::forward), 4 * (R * D + R * D / 2));
  EXPECT_EQ(work.bytes("swiglu", Phase::backward), 4 * (2 * R * D + R * D / 2));
  EXPECT_EQ(work.bytes("gelu_erf", Phase::backward), 3 * 4 * R * D / 2);
  EXPECT_EQ(work.flops("gelu_erf", Phase::backward), 2 * 10 * R * D / 2);
  EXPECT_EQ(work.bytes("contiguous", Phase::forward), 2 * 4 * R * D);
  // Added, as a gradient that has columns of zeros.
  EXPECT_EQ(work.bytes("contiguous", Phase::backward), 3 * 4 * R * D);
  EXPECT_THROW(work.at("slice", Phase::forward), Error);
}

TEST(Work, CollectivesCountWhatARankSends) {
  constexpr int ranks = 2;
  const Work columns(
      [](Graph& g) {
        const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
        return compared(g, gather_columns(gelu_erf(split_columns(x)), channels));
      },
      ranks);
  const double part = 4 * R * C / ranks;
  EXPECT_EQ(columns.bytes("split_columns", Phase::forward), 2 * part);
  EXPECT_EQ(columns.bytes("split_columns", Phase::backward), (ranks - 1) * part);
  EXPECT_EQ(columns.bytes("gather_columns", Phase::forward), (ranks - 1) * part);
  EXPECT_EQ(columns.bytes("gather_columns", Phase::backward), 2 * part);

  const Work layers(
      [](Graph& g) {
        const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
        const Value h = column_linear(x, "up", outputs, {.bias = Bias::none});
        return compared(g, row_linear(h, "down", channels, {.bias = Bias::none}));
      },
      ranks);
  EXPECT_EQ(layers.bytes("enter", Phase::backward), 2 * (ranks - 1) * part);
  EXPECT_EQ(layers.bytes("leave", Phase::forward), 2 * (ranks - 1) * part);
  EXPECT_THROW(layers.at("enter", Phase::forward), Error);
}

/// The FLOPs and bytes of the parts are those of the op.
double product_flops(const StepWork& work) {
  double sum = 0;
  for (const ProductWork& product : work.parts.products) sum += product.flops();
  return sum;
}

TEST(WorkParts, OfALinearLayerAreItsThreeProducts) {
  const Work work(
      [](Graph& g) {
        const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
        return compared(g, linear(x, "layer", outputs, {.bias = Bias::none}));
      },
      1, DType::bf16);
  const StepWork &forward = work.at("linear", Phase::forward),
                 &backward = work.at("linear", Phase::backward);
  EXPECT_EQ(forward.parts.products,
            (std::vector<ProductWork>{{work_rows, outputs, channels, 1, DType::bf16}}));
  EXPECT_EQ(forward.loop_bytes(), 0);
  EXPECT_EQ(
      backward.parts.products,
      (std::vector<ProductWork>{{outputs, channels, work_rows, 1, DType::bf16, DType::f32, true},
                                {work_rows, channels, outputs, 1, DType::bf16}}));
  EXPECT_EQ(backward.loop_bytes(), 0);  // the sum of the gradient is part of its product
  EXPECT_EQ(product_flops(backward), backward.flops);
}

TEST(WorkParts, OfTheHeadArePieces) {
  constexpr Index vocabulary = 24;
  const Work work([](Graph& g) {
    const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
    const Value w = parameter(g, "w", {vocabulary, channels});
    return linear_cross_entropy(x, w, g.input("t", Spec({work_rows}, DType::i32)), vocabulary, 4);
  });
  const StepWork& backward = work.at("linear_cross_entropy", Phase::backward);
  // 6 rows in 4 pieces of 2 rows at most are 3 pieces.
  EXPECT_EQ(backward.parts.products.front(), (ProductWork{2, vocabulary, channels, 3, DType::f32}));
  EXPECT_EQ(product_flops(backward), 3 * 2 * R * C * vocabulary);
  // The logits are read for the loss, and read and written for its gradient; rows and sums beside.
  EXPECT_EQ(backward.loop_bytes(), 3 * 4 * R * vocabulary + 4 * R + 4 * R + 8);
}

TEST(WorkParts, OfCollectivesMoveTheirBytes) {
  using Kind = CollectiveWork::Kind;
  const Work work(
      [](Graph& g) {
        const Value x = layer_norm(g.input("x", {work_rows, channels}), "norm");
        const Value h = column_linear(x, "up", channels, {.bias = Bias::none});
        return compared(g, row_linear(h, "down", channels, {.bias = Bias::none}));
      },
      2);
  const StepWork &leave = work.at("leave", Phase::forward),
                 &enter = work.at("enter", Phase::backward);
  const std::vector<CollectiveWork> all_reduce = {{Kind::all_reduce, 2, 4 * R * C}};
  EXPECT_EQ(leave.parts.collectives, all_reduce);
  EXPECT_EQ(enter.parts.collectives, all_reduce);
  for (const StepWork* step : {&leave, &enter}) {
    EXPECT_EQ(step->parts.collectives.front().ring_bytes(), step->bytes);
    EXPECT_EQ(step->loop_bytes(), 0);
  }
}

TEST(WorkParts, OfAttentionAreItsHeads) {
  const Work work([](Graph& g) {
    const Value x = layer_norm(g.input("x", {work_rows, 24}), "norm");
    return compared(g, causal_attention(x, work_rows / 2, {2, 1, 6}));
  });
  const StepWork& backward = work.at("causal_attention", Phase::backward);
  ASSERT_EQ(backward.parts.attention.size(), 1u);
  const AttentionWork& attention = backward.parts.attention.front();
  EXPECT_EQ(attention.batch, 2);
  EXPECT_EQ(attention.query_heads, 2);
  EXPECT_EQ(attention.kv_heads, 1);
  EXPECT_EQ(attention.flops, backward.flops);
  EXPECT_EQ(backward.loop_bytes(), 0);
}

}  // namespace
}  // namespace trireme
