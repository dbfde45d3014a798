// Parts of check_options (options/options.h), their queries to the file system, and which options
// have no effect.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/options/options.h"

#include "runtime/core/output/output_file.h"

namespace trireme::options {

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

/// Returns the options that are legal but have no effect on so many ranks, such as
/// "--sequence-parallel (tensor parallel size 1), ..."; "" where there are none.
std::string idle_options(const CommandLine& command, const Options& options, Index ranks);

}  // namespace trireme
