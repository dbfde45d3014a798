// trireme verify of layouts on emulated GPUs.
#include "tests/support/emulated_gpu.h"
#include "tests/support/verified_layout.h"

namespace trireme::test {
namespace {

class GpuVerify : public VerifiedLayout {
 protected:
  Outcome verify_on_gpus(const std::string& options, const std::string& devices = "8") const {
    return run_shell(on_emulated_gpus({}, devices) + line(2, "") + " -- " + train_gpt_program +
                         data() +
                         "--model gpt2-124m --num-layers 6 --hidden-size 64 --ffn-hidden-size 64 "
                         "--num-attention-heads 2 --vocab-size 256 --seq-length 32 "
                         "--global-batch-size 4 " +
                         options,
                     folder_ / "log");
  }
};

TEST_F(GpuVerify, ProvesALayoutOnGpus) {
  const Outcome outcome = verify_on_gpus("--tp 2 --device cuda");
  expect_proved(outcome);
  EXPECT_THAT(outcome.output, testing::HasSubstr(", fp32, GPU, "));
}

TEST_F(GpuVerify, ProvesALayoutInBf16WhoseAttentionFp32HasNot) {
  expect_proved(verify_on_gpus("--pp 2 --device cuda --bf16 --attention mma"));
}

TEST_F(GpuVerify, RefusesALayoutForWhichGpusAreFew) {
  const Outcome outcome = verify_on_gpus("--pp 2", "1");
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("the layout cannot train 2 blocks:\n"));
}

}  // namespace
}  // namespace trireme::test
