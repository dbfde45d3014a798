// FileLayout: a whole checkpoint file before anything is written: HDF5 has laid it out in
// memory-backed storage, so HDF5 never meets a disk (on a full one it can crash, or report success
// after losing data), and every byte that is not tensor data is known. A file is written,
// checksummed and read as blocks of `block_bytes`.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/box.h"

#include "runtime/store/checksum.h"

namespace trireme {

/// Files are checksummed, copied and read in blocks of this size; the last one may be shorter.
inline constexpr Index block_bytes = Index{1} << 20;
inline Index blocks_of(Index file_bytes) { return (file_bytes + block_bytes - 1) / block_bytes; }

/// A box of a logical tensor, packed (row-major) in memory and in one file.
struct Piece {
  std::string tensor;  // "parameters/h.0.attention.query"; '/' makes HDF5 groups
  DType dtype = DType::f32;
  Shape global;
  Box box;
  const void* data = nullptr;  // borrowed; null where a file is only planned or compared
  MemoryOf memory = MemoryOf::host;
  Index offset = 0;  // in the file; lay_out_shard() sets it
  Index bytes() const { return box.count() * size_bytes(dtype); }
};

struct FileLayout {
  struct Run {
    Index offset;
    std::vector<std::byte> bytes;
  };
  Index bytes = 0;  // size of the file
  /// What HDF5 wrote: ascending, not overlapping. Bytes in no run and no piece are zero.
  std::vector<Run> structure = {};
  std::vector<Piece> pieces = {};  // with their offsets; where a piece lies, its bytes win
};

/// shard-RRRRR.h5: each piece is a contiguous dataset "<tensor>/<begin of the box, joined by '_'>"
/// ("<tensor>/0" for a scalar) of the box's shape, with attributes "begin" and "global". Pieces are
/// not empty; of one tensor they do not overlap. The same pieces give the same bytes; their memory
/// is not read. Throws: Error that names the tensor, when HDF5 refuses, when a piece is not part of
/// its tensor, or when neither memory nor disk has space for the structure (the pieces take none).
FileLayout lay_out_shard(std::vector<Piece> pieces);

/// Where a box of a global tensor comes from, for checkpoint.h5.
struct GlobalTensor {
  struct Part {
    std::string file;  // relative: "shard-00003.h5"
    Box box;
  };
  std::string name;
  DType dtype = DType::f32;
  Shape global;
  std::vector<Part> parts;
};
/// checkpoint.h5: each tensor a virtual dataset "<name>" over the datasets of the shards beside it.
/// Where a shard is missing it shows a signalling NaN with a payload of a5 (f32 0x7fa5a5a5, bf16
/// 0x7fa5, f64 0x7ff5a5a5a5a5a5a5), the most negative integer, or 255 (u8). Never read by trireme.
/// Has no pieces. Throws: Error, as above, and for a tensor without parts.
FileLayout lay_out_global(const std::vector<GlobalTensor>& tensors);

/// "shard-00003.h5"
std::string shard_name(int rank);
inline constexpr const char* global_name = "checkpoint.h5";

/// Opens `path` with HDF5 and compares dataset by dataset with `pieces`; virtual datasets, which
/// hold no bytes, are ignored. Only for files whose checksums held. Returns what differs first, ""
/// when nothing does.
std::string structure_problem(const std::string& path, const std::vector<Piece>& pieces);

}  // namespace trireme
