// Snapshot: one rank's file, copied out of memory that training then changes, and written by a
// Worker. Training waits for the copy only. The file's image is composed block by block (HDF5's
// structure and the pieces, each byte once) into a ring of bounded, preallocated memory. Pieces in
// host memory are checksummed in the same pass; pieces on a device are copied by a stream beside
// training, and checksummed by the writer.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/core/device.h"

#include "runtime/store/checksum.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/write/worker.h"

namespace trireme {

struct SnapshotReport {
  Index bytes = 0;
  double stall_ms = 0;           // save() held its caller
  double copy_ms = 0;            // from save() until all pieces were copied
  double write_ms = 0;           // the writer worked, until the file was durable
  bool direct = false;           // O_DIRECT was possible
  bool reserved = false;         // so was fallocate
  std::vector<Checksum> blocks;  // one per block of the file, when there is no error
  std::string error;             // empty: the file is complete and durable
};

class Snapshot {
 public:
  /// The memory of layout.pieces is borrowed for the life of this object. `buffer_bytes`: of the
  /// ring, rounded up to whole blocks, at least two; more than the image is not taken. 0: the whole
  /// image. All memory is taken (and touched) here.
  Snapshot(FileLayout layout, Index buffer_bytes);
  /// Takes pieces on `device`, borrowed; pieces of the host's memory may be among them (see
  /// Piece::memory).
  Snapshot(FileLayout layout, Index buffer_bytes, Device& device);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// `f` is called many times a second, by any thread of save() or finish_copying(), while that
  /// waits for the disk. It must not throw.
  void while_waiting(std::function<void()> f);
  Index buffer_bytes() const;
  /// Bytes that a Snapshot of this image takes.
  static Index buffer_bytes(Index image_bytes, Index wanted);

  /// Creates `path` (which must not exist) and copies. Returns when the pieces may change again: at
  /// once after the copy if the ring holds the image, else when the rest fits. Never throws because
  /// of the disk: a failed write is in the report, the copy is cut short, and the partial file
  /// stays. The previous job of `worker` must be finished.
  void save(const std::string& path, ThreadPool& pool, Worker& worker);
  /// Pieces on a device: queues their copies on `copies`, as many as fit into the ring, and returns
  /// without waiting for any. They may change when `copies` has done what finish_copying() has
  /// queued; pieces of the host when that has returned.
  void start_saving(const std::string& path, Stream& copies, Worker& worker);
  /// Copies to memory of the host, of the size of the image. Pieces of the host are copied when
  /// this returns, past the ring.
  void save(std::byte* to, ThreadPool& pool);
  void start_saving(std::byte* to, Stream& copies, Worker& worker);
  /// After start_saving(): hands blocks that have arrived to the worker and queues further copies.
  /// Never blocks. Returns whether all blocks have arrived.
  bool move_on(Stream& copies);
  /// After start_saving(): returns when all copies are queued, which takes the disk's time where
  /// the ring is too small.
  void finish_copying(Stream& copies);
  /// What the last save() did; call when the worker has finished.
  const SnapshotReport& report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
