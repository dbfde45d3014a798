// A rank of a small transformer with all that training has: dropout, tied and padded embeddings,
// sequence parallelism and ZeRO-1, over as many axes of the mesh as the ranks of mpirun allow.
#pragma once

#include <memory>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "tests/support/mpi_ranks.h"
#include "tests/train/random_tokens.h"

namespace trireme::testing {

using test::RandomTokens;

inline MeshShape widest_mesh(int ranks) {
  if (ranks % 4 == 0) return MeshShape(ranks / 4, 2, 2);
  return ranks == 2 ? MeshShape(1, 2, 1) : MeshShape(ranks, 1, 1);
}

class TransformerRank {
 public:
  /// `options`: but for the layout, the batch and the optimizer's buckets, which are set here.
  explicit TransformerRank(const Options& options = {})
      : options_(over_all_axes(options)),
        trainer_(context_, Model([this](Graph& g) {
                   return build_transformer_loss(g, config(options_), 1);
                 })) {}
  const Context& context() const { return context_; }
  Trainer& trainer() { return trainer_; }

 private:
  static MeshShape shape() { return widest_mesh(mpi_session().size()); }

  static Options over_all_axes(Options options) {
    options.tensor_size = shape().size(Axis::tensor);
    options.pipeline_size = shape().size(Axis::pipeline);
    options.use_distributed_optimizer = true;
    options.global_batch_size = 12;
    options.bucket_size = 2000;
    return options;
  }

  static TransformerConfig config(const Options& options) {
    TransformerConfig config = preset("tiny");
    config.hidden_size = 32;
    config.num_attention_heads = 4;
    config.seq_length = config.max_position_embeddings = RandomTokens::usual_length;
    config.vocab_size = RandomTokens::vocabulary;
    config.hidden_dropout = 0.1f;
    config.sequence_parallel =
        options.tensor_size > 1 ? SequenceParallel::on : SequenceParallel::off;
    return config;
  }

  const Options options_;
  const std::unique_ptr<Device> device_ = open_cpu();
  const std::unique_ptr<Stream> stream_ = device_->make_stream();
  const std::unique_ptr<Mesh> mesh_ = mpi_session().make_mesh(shape());
  const Log log_{mesh_->rank(), LogLevel::quiet};
  Context context_{options_, *mesh_, *stream_, log_};
  Trainer trainer_;
};

}  // namespace trireme::testing
