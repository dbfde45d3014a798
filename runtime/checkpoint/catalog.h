// Catalog: which rank writes which boxes at which offset of its file, gathered once. It is a
// manifest without checksums.
#pragma once

#include "trireme/comm/host.h"

#include "runtime/store/file_layout.h"
#include "runtime/store/manifest.h"

namespace trireme::checkpoint {

/// Collective. On rank 0: the tensors of all ranks, by name, with their pieces, and the shards by
/// rank with their sizes. Elsewhere empty. `file`: this rank's shard; its structure is not read.
Manifest gather_catalog(const Host& host, const FileLayout& file);

/// The tensors of a catalog for lay_out_global().
std::vector<GlobalTensor> global_tensors(const Manifest& catalog);

}  // namespace trireme::checkpoint
