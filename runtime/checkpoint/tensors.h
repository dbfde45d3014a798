// What a rank writes to a checkpoint and reads from it, as boxes of logical tensors with their
// memory; and the catalog of what all ranks write. Only this module makes the names that a
// checkpoint uses.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/host.h"

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/manifest.h"
#include "runtime/store/read/reader.h"

namespace trireme::checkpoint {

/// The scalars of a checkpoint, in memory that a snapshot can copy. Rank 0 writes them.
struct SavedScalars {
  TrainingProgress progress;
  Index seed = 0;
};

/// Returns what one rank writes: the pieces of its shard. Over all ranks each logical element
/// occurs once. `scalars`: null on ranks that do not write them. `optimizer`: null where nothing is
/// trained.
std::vector<Piece> saved_pieces(const FlatParameters& flat, const Optimizer* optimizer,
                                const SavedScalars* scalars);
/// Returns these pieces before their memory exists, to plan it.
std::vector<Piece> planned_pieces(const FlatLayout& flat, const OptimizerOptions& optimizer,
                                  bool scalars);

/// Returns what one rank keeps in a snapshot of its own: all that it reads when it resumes in the
/// same layout, with the scalars.
std::vector<Piece> snapshot_pieces(const FlatParameters& flat, const Optimizer& optimizer,
                                   const SavedScalars& scalars);
std::vector<Piece> planned_snapshot_pieces(const FlatLayout& flat,
                                           const OptimizerOptions& optimizer);

/// Returns what one rank reads, as f32: its slices of parameters and moments, so that data replicas
/// read nothing twice. `kept`: those parameters that are in memory in f32, or in bf16: frozen ones
/// of a model that computes in it.
std::vector<Wanted> wanted_parameters(const FlatParameters& flat, DType kept);
std::vector<Wanted> wanted_state(const FlatParameters& flat, const Optimizer& optimizer);
/// Collective. Distributes what the data ranks have read: each then has the parameters that it
/// computes with, and the masters and state that it keeps.
void gather_parameters(const FlatParameters& flat, Communicator& data, Stream& stream);
void gather_state(const FlatParameters& flat, const Optimizer& optimizer, Communicator& data,
                  Stream& stream);
std::vector<Wanted> wanted_scalars(SavedScalars& scalars);

/// Prefixes of names: "parameters/", "optimizer/", "state/".
inline constexpr const char* parameters_prefix = "parameters/";
inline constexpr const char* optimizer_prefix = "optimizer/";
inline constexpr const char* scalars_prefix = "state/";

/// Collective. Gathers the catalog: which rank writes which boxes at which offset of its file, as a
/// manifest without checksums. Returns on rank 0 the tensors of all ranks, by name, with their
/// pieces, and the shards by rank with their sizes; elsewhere an empty one. `file`: this rank's
/// shard; its structure is not read.
Manifest gather_catalog(const Host& host, const FileLayout& file);

/// Returns the tensors of a catalog for lay_out_global().
std::vector<GlobalTensor> global_tensors(const Manifest& catalog);

}  // namespace trireme::checkpoint
