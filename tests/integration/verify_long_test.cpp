// trireme verify on one layout of each kind.
#include <string>
#include <vector>

#include "tests/support/verified_layout.h"

namespace trireme::test {
namespace {

class VerifyLong : public VerifiedLayout {};

TEST_F(VerifyLong, ProvesLayoutsOfEachKind) {
  struct Layout {
    int ranks;
    std::string options;
  };
  for (const Layout& layout : std::vector<Layout>{
           {1, "--recompute-granularity full --micro-batch-size 2"},
           {4, "--use-distributed-optimizer --bucket-size 5000"},
           {4, "--tp 4 --sequence-parallel --hidden-dropout 0.1"},
           {4, "--pp 4 --schedule gpipe"},
           {2, "--data-parallel-shares 3,1"},
           {4, "--pp 2 --schedule zero-bubble --bf16"},
           {8,
            "--tp 2 --pp 2 --num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 "
            "--use-distributed-optimizer --sequence-parallel --bf16"}}) {
    SCOPED_TRACE(layout.options);
    expect_proved(verify(layout.ranks, train_gpt_program + model() + layout.options));
  }
}

TEST_F(VerifyLong, ProvesALlamaThatSgdTrains) {
  expect_proved(verify(4,
                       train_gpt_program + data() +
                           "--model tiny-llama --seq-length 32 --tp 2 --optimizer sgd --lr 0.1",
                       "--depth 2"));
}

}  // namespace
}  // namespace trireme::test
