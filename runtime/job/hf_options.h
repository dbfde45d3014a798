// --load-hf: the options of the model that a directory of Hugging Face describes.
#pragma once

#include <optional>

#include "runtime/job/saved_options.h"

namespace trireme::job {

/// What the command line says itself; 0: nothing.
struct GivenSizes {
  Index seq_length = 0, vocab_size = 0;
};

/// The options of config.json; of the copy in --load where the directory is gone. A larger
/// vocabulary than there is legal, so that --vocab-size is then left out. Where --load has no
/// checkpoint yet, also compares the headers of all files with the config; no tensor is read. What
/// is wrong is added to `problems`.
std::optional<SavedOptions> read_hf_options(const CheckpointOptions& options,
                                            const GivenSizes& given, Problems& problems);

}  // namespace trireme::job
