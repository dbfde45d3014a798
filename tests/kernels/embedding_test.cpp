// Embeddings of tokens and positions on CPUs, with their gradients.
#include "trireme/kernels/embedding.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

TEST(Embedding, PicksItsPartOfTheVocabularyAndAddsGradientsToIt) {
  for (const auto& [n, m] : {std::pair<Index, Index>{1, 1}, {31, 33}, {500, 65}, {200, 384}}) {
    const Index rows = n, channels = m, vocabulary = 37, first = 5, part = 20;
    const auto tokens = random_tokens(rows, vocabulary, "tokens");
    const Floats table = random_values(part * channels, "table"),
                 dy = random_values(rows * channels, "dy");
    Doubles y, dtable = to_double(table);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < channels; ++c) {
        const Index row = tokens[at(r)] - first;
        const bool here = row >= 0 && row < part;
        y.push_back(here ? static_cast<double>(table[at(row * channels + c)]) : 0);
        if (here) dtable[at(row * channels + c)] += static_cast<double>(dy[at(r * channels + c)]);
      }
    expect_everywhere(
        [&](Stream& s) {
          Floats out(at(rows * channels), 9.0f);
          s.kernels().embedding.forward(
              s, {rows, channels, tokens.data(), table.data(), first, part, out.data()});
          return out;
        },
        y, 0);
    expect_everywhere(
        [&](Stream& s) {
          Floats out = table;
          s.kernels().embedding.backward(
              s, {rows, channels, tokens.data(), dy.data(), out.data(), first, part, nullptr});
          return out;
        },
        dtable, 1e-6);
  }
}

TEST(Positions, AreAddedAndTheirGradientsSummed) {
  for (const Index first_row : {Index{0}, Index{5}, Index{40}}) {
    const Index rows = 83, channels = 33, sequence = 11;
    const Floats x = random_values(rows * channels, "x"),
                 table = random_values(sequence * channels, "table");
    Doubles y, dtable = to_double(table);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < channels; ++c) {
        const Index i = (first_row + r) % sequence * channels + c;
        y.push_back(static_cast<double>(x[at(r * channels + c)]) +
                    static_cast<double>(table[at(i)]));
        dtable[at(i)] += static_cast<double>(x[at(r * channels + c)]);
      }
    expect_everywhere(
        [&](Stream& s) {
          Floats out(x.size()), in_place = x;
          s.kernels().embedding.position_forward(
              s, {rows, channels, sequence, first_row, x.data(), table.data(), out.data()});
          s.kernels().embedding.position_forward(
              s, {rows, channels, sequence, first_row, in_place.data(), table.data(),
                  in_place.data()});
          EXPECT_TRUE(same_bits(out, in_place));
          return out;
        },
        y, 1e-7);
    expect_everywhere(
        [&](Stream& s) {
          Floats out = table;
          s.kernels().embedding.position_backward(
              s, {rows, channels, sequence, first_row, x.data(), out.data()});
          return out;
        },
        dtable, 1e-6);
  }
}

TEST(Embedding, InBf16RowsAreCopiedAndGradientsAreThoseOfF32) {
  expect_rounded_once([](Stream& s, Arrays& a) {
    const EmbeddingKernels& k = s.kernels().embedding;
    const Index rows = 200, channels = 65, sequence = 11;
    const auto tokens = random_tokens(rows, 37, "tokens");
    const void* x = a.put(random_values(rows * channels, "x"));
    const void* table = a.put(random_values(20 * channels, "table"));
    void* y = a.put(Floats(at(rows * channels), 9.0f));
    k.forward(s, {rows, channels, tokens.data(), table, 5, 20, y, a.dtype});
    k.position_forward(
        s, {rows, channels, sequence, 3, x, table, a.put(Floats(at(rows * channels))), a.dtype});
    float* dtable = a.put_f32(random_values(20 * channels, "dtable"));
    k.backward(s, {rows, channels, tokens.data(), x, dtable, 5, 20, nullptr, a.dtype});
    k.position_backward(s, {rows, channels, sequence, 3, x, dtable, a.dtype});
  });
}

}  // namespace
}  // namespace trireme
