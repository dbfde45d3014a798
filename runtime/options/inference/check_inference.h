// Options of what follows training, or takes its place: evaluation and generation. Parts of
// declare_gpt_options and check_gpt_options (options/gpt_options.h).
#pragma once

#include "trireme/options/gpt_options.h"

namespace trireme::options {

void declare_skip_train(CommandLine& command, GptOptions& gpt);
void declare_generation(CommandLine& command, GptOptions& gpt);
void check_evaluation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems);
void check_generation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems);

}  // namespace trireme::options
