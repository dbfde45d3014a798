#include "runtime/nn/vocabulary.h"

#include <algorithm>

#include "trireme/kernels/cross_entropy.h"

#include "runtime/nn/op_helpers.h"

namespace trireme::nn {

Index VocabularyPart::columns(Index width) const {
  return std::clamp<Index>(vocabulary - rank * width, 0, width);
}

void VocabularyPart::require_columns(Index width) const {
  require(vocabulary > 0 && vocabulary <= ranks * width, "a vocabulary of ", vocabulary,
          " needs as many columns of logits; ", ranks, ranks == 1 ? " rank has " : " ranks have ",
          width, ranks == 1 ? "" : " each");
}

VocabularyPart vocabulary_part(Value columns, Index vocabulary) {
  if (tensor_size(columns) == 1 || columns.placement() != Placement::sharded) return {vocabulary};
  return {vocabulary, tensor_rank(columns), tensor_size(columns)};
}

Index partials_bytes(const VocabularyPart& part, Index rows) {
  return part.ranks * rows * static_cast<Index>(sizeof(RowPartial));
}

std::vector<CollectiveWork> exchanged_partials(const VocabularyPart& part, Index rows) {
  if (part.ranks == 1) return {};
  return {{CollectiveWork::Kind::all_gather, static_cast<int>(part.ranks),
           static_cast<double>(partials_bytes(part, rows))}};
}

void sum_loss(Stream& stream, Communicator& tensor_axis, const VocabularyPart& part,
              const LogitRows& r, RowPartial* partials, double* loss) {
  const Index rows = r.logits.shape[0], width = r.logits.shape[1];
  RowPartial* mine = partials + part.rank * rows;
  const CrossEntropyKernels& kernels = stream.kernels().cross_entropy;
  kernels.partial(stream, {.rows = rows,
                           .columns = part.columns(width),
                           .row_stride = r.logits.strides[0],
                           .first = part.rank * width,
                           .logits = r.logits.data,
                           .targets = r.targets,
                           .partial = mine,
                           .dtype = r.logits.dtype});
  if (part.ranks > 1) {
    const Index floats = rows * static_cast<Index>(sizeof(RowPartial) / sizeof(float));
    tensor_axis.all_gather({mine, floats, DType::f32}, {partials, part.ranks * floats, DType::f32},
                           stream);
  }
  kernels.combine(stream, {.rows = rows,
                           .ranks = static_cast<int>(part.ranks),
                           .partials = partials,
                           .targets = r.targets,
                           .logsumexp = r.logsumexp,
                           .loss = loss});
}

void differentiate_logits(Stream& stream, const VocabularyPart& part, const LogitRows& r,
                          const double* scale, void* dlogits) {
  const Index width = r.logits.shape[1];
  stream.kernels().cross_entropy.backward(stream, {.rows = r.logits.shape[0],
                                                   .columns = part.columns(width),
                                                   .padded_columns = width,
                                                   .row_stride = r.logits.strides[0],
                                                   .first = part.rank * width,
                                                   .logits = r.logits.data,
                                                   .targets = r.targets,
                                                   .logsumexp = r.logsumexp,
                                                   .scale = scale,
                                                   .dlogits = dlogits,
                                                   .dtype = r.logits.dtype});
}

}  // namespace trireme::nn
