// Trains a GPT-2 or Llama-style transformer on token files, over data x tensor x pipeline parallel
// ranks.
// mpirun -np 8 train_gpt --data-path PREFIX --tp 2 --pp 2; train_gpt --help lists the
// options.
#include "train_gpt.h"

int main(int argc, char** argv) {
  TrainGpt program;
  return trireme::run(argc, argv, program.application(),
                      [&](trireme::Context& context) { program.train(context); });
}
