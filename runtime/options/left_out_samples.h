// What --skip-samples leaves out of the data.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/options/options.h"
#include "trireme/options/problems.h"

#include "runtime/data/skipped_samples.h"

namespace trireme::options {

/// Throws: ConfigurationError; the command line was checked, but a program may fill Options itself.
inline data::SkippedSamples left_out_samples(const Options& options) {
  try {
    return data::skipped_samples(options.checkpoint.skip_samples);
  } catch (const Error& error) {
    throw ConfigurationError(str("--skip-samples ", error.what()));
  }
}

}  // namespace trireme::options
