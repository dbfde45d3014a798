// Slots: what one rank keeps of a run in a directory of its node, in memory or on a disk, where it
// outlives the rank and mpirun. Two files take turns; each is a shard (file_layout.h), with a small
// file beside it that says what it holds, its header. A slot without a header holds nothing.
// Filling one:
//   begin()     removes the header
//   (the shard is written through memory())
//   finish()    writes the header: this rank's part of the step is there
//   confirm()   renames the header, once all ranks have theirs: the step is complete
// While a slot is filled, the other one is left alone: so a step that was complete is there at
// every instant.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/buffer.h"

#include "runtime/store/checksum.h"

namespace trireme::store {

struct SlotHeader {
  Index step = 0;
  std::string job;  // id of the job that wrote it
  int rank = 0, ranks = 1;
  Checksum form;  // checksum of all that a reader must have in common with the writer
  std::vector<Checksum> blocks;  // checksums of the shard
  bool complete = false;         // all ranks have theirs; not in the text, but in the file's name
};

std::string to_text(const SlotHeader& header);
/// Throws: Error when it is damaged, cut short or of another format.
SlotHeader parse_slot_header(const std::string& text);

/// Directory of the snapshots of a run in the memory of this node. `key`: of the run, as the
/// supervisor gives it (TRIREME_RUN_KEY). The private directories of attempts have other names.
/// These directories too are private (core/process/private_directory.h), and have another name
/// where another user has taken theirs. Throws: Error where all names are taken.
std::string snapshot_directory(const std::string& key);
/// Directory of the snapshots of a run on a disk of a node: a folder in `disk` (--save-local), in
/// which each node has one of its own, so that nodes may also share a disk.
std::string local_snapshot_directory(const std::string& disk, const std::string& key);
std::string local_snapshot_directory(const std::string& disk, const std::string& key,
                                     const std::string& node);
/// Bytes that the file system of snapshot_directory() has free.
Index free_snapshot_bytes();
/// Bytes of memory that the files in the directory have, but those of the ranks in `own`.
Index bytes_of_others(const std::string& directory, const std::vector<int>& own);
/// Removes all snapshots in the directory, and the directory; also when it is gone already.
void remove_snapshots(const std::string& directory);
/// Removes the snapshots on a disk: those of all nodes that are there.
void remove_local_snapshots(const std::string& disk, const std::string& key);
/// Removes those of one node.
void remove_local_snapshots(const std::string& disk, const std::string& key,
                            const std::string& node);
/// Removes all files but those of the ranks in `own`, and copies of those of the ranks in `copied`.
void remove_slots_of_others(const std::string& directory, const std::vector<int>& own,
                            const std::vector<int>& copied = {});

class Slots {
 public:
  static constexpr int count = 2;
  enum class Whose { own, copy };  // copy: kept by a rank of another node

  /// Makes and reads nothing. `bytes`: the size of a shard.
  Slots(std::string directory, int rank, Index bytes, Whose whose = Whose::own);

  const std::string& directory() const { return directory_; }
  Index bytes() const { return bytes_; }
  /// "rank-00003-a.h5"
  std::string shard(int slot) const;
  /// Returns nothing where the slot holds nothing, or something that cannot be read.
  std::optional<SlotHeader> header(int slot) const;
  /// Bytes of memory that the files have already.
  Index reserved_bytes() const;
  /// Makes the directory and the files, and reserves all their space; what they hold stays, if it
  /// has the right size. Throws: Error that names the bytes needed and free.
  void reserve();
  /// Reserves one slot only.
  void reserve(int slot);
  /// In place of reserve(), memory() and finish() for slots on a disk: fills one durably, from the
  /// memory of a slot of the same size. The directory must exist. Calls `before_piece` before each
  /// piece of some blocks, which may take its time, or throw to give up. Throws: Error; the slot
  /// then holds nothing.
  void write(
      int slot, const std::byte* from, const SlotHeader& header,
      const std::function<void()>& before_piece = [] {}) const;
  /// Copies the shard of a slot on a disk to such memory, and calls `has_read` after each read of
  /// some MiB. Throws: Error.
  void read(
      int slot, std::byte* to, const std::function<void()>& has_read = [] {}) const;

  /// Returns the memory of the shard; after reserve().
  std::byte* memory(int slot) const { return memory_[static_cast<std::size_t>(slot)].data(); }
  void begin(int slot) const;
  void finish(int slot, const SlotHeader& header) const;
  void confirm(int slot) const;

 private:
  std::string path(int slot, const char* suffix) const;

  std::string directory_, prefix_;
  Index bytes_;
  std::array<Buffer, count> memory_;
};

}  // namespace trireme::store
