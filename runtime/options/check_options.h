// Parts of check_options (options/options.h), and their queries to the file system.
#pragma once

#include <string>

#include "trireme/options/options.h"

#include "runtime/core/output/output_kinds.h"

namespace trireme::options {

void check_checkpoint_options(const CommandLine& command, const Options& options,
                              Problems& problems);

/// What is wrong with a directory that `option` will create or write to. "": the option is not set.
void check_directory(const char* option, const std::string& path, Problems& problems);
/// What is wrong with a file that `option` will write (output_file.h). "": the option is not set.
void check_output(const char* option, const std::string& path, const OutputKind& kind,
                  Problems& problems);
/// The files of --dump-tensors.
void check_dump(const std::string& prefix, Problems& problems);
/// No option may write a file that another one reads or writes, whatever they call it.
void check_outputs_differ(const CommandLine& command, Problems& problems);

}  // namespace trireme::options

namespace trireme {

// Options that are legal but have no effect in the layout of this job.

/// "--sequence-parallel (tensor parallel size 1), ...": the given options without effect on `ranks`
/// ranks; "" when there are none.
std::string idle_options(const CommandLine& command, const Options& options, Index ranks);

}  // namespace trireme
