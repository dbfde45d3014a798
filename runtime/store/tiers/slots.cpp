#include "runtime/store/tiers/slots.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/private_directory.h"
#include "runtime/core/require_call.h"
#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"
#include "runtime/store/checksum.h"
#include "runtime/store/file.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/json_forms.h"
#include "runtime/store/system_call.h"

namespace trireme::store {
namespace {

const std::string memory_of_node = "/dev/shm";
constexpr Index header_limit_bytes = Index{64} << 20;  // of a shard of 1.7 TB
constexpr Index piece_bytes = 8 * block_bytes;         // of one transfer
constexpr const char *unconfirmed = ".unvoted", *confirmed = ".json", *unfinished = ".new";

Index free_bytes(const std::string& directory) {
  struct statvfs status {};
  if (::statvfs(directory.c_str(), &status) != 0) return 0;
  return static_cast<Index>(status.f_bavail) * static_cast<Index>(status.f_bsize);
}

/// Bytes of memory that a file has; 0: there is none.
Index allocated_bytes(const std::string& file) {
  constexpr Index unit = 512;  // of st_blocks
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? Index{status.st_blocks} * unit : 0;
}

/// "rank-00003-", "copy-of-rank-00003-"
std::string prefix_of(int rank, Slots::Whose whose) {
  return fmt::format("{}rank-{:05}-", whose == Slots::Whose::copy ? "copy-of-" : "", rank);
}

bool is_of(const std::string& name, const std::vector<int>& ranks, Slots::Whose whose) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return name.starts_with(prefix_of(rank, whose)); });
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// Names of its files; none where there is no such directory, also when a rank of this node has
/// just removed it.
std::vector<std::string> files_of(const std::string& directory) {
  if (!exists(directory)) return {};
  try {
    return list_directory(directory);
  } catch (const Error&) {
    if (exists(directory)) throw;
  }
  return {};
}

}  // namespace

std::string snapshot_directory(const std::string& key) {
  return private_path(memory_of_node + "/trireme-" + key + "-snapshots");
}

std::string local_snapshot_directory(const std::string& disk, const std::string& key) {
  return private_path(disk + "/trireme-" + key + "-snapshots");
}

std::string local_snapshot_directory(const std::string& disk, const std::string& key,
                                     const std::string& node) {
  return local_snapshot_directory(disk, key) + "/" + node;
}

Index free_snapshot_bytes() { return free_bytes(memory_of_node); }

Index bytes_of_others(const std::string& directory, const std::vector<int>& own) {
  Index bytes = 0;
  for (const std::string& name : files_of(directory))
    if (!is_of(name, own, Slots::Whose::own)) bytes += allocated_bytes(directory + "/" + name);
  return bytes;
}

void remove_snapshots(const std::string& directory) {
  remove_slots_of_others(directory, {});
  remove_directory(directory);
}

void remove_local_snapshots(const std::string& disk, const std::string& key) {
  const std::string directory = local_snapshot_directory(disk, key);
  for (const std::string& node : files_of(directory)) remove_snapshots(directory + "/" + node);
  remove_directory(directory);
}

void remove_local_snapshots(const std::string& disk, const std::string& key,
                            const std::string& node) {
  remove_snapshots(local_snapshot_directory(disk, key, node));
  const std::string directory = local_snapshot_directory(disk, key);
  if (files_of(directory).empty()) remove_directory(directory);
}

void remove_slots_of_others(const std::string& directory, const std::vector<int>& own,
                            const std::vector<int>& copied) {
  for (const std::string& name : files_of(directory))
    if (!is_of(name, own, Slots::Whose::own) && !is_of(name, copied, Slots::Whose::copy))
      remove_file(directory + "/" + name);
}

Slots::Slots(std::string directory, int rank, Index bytes, Whose whose)
    : directory_(std::move(directory)), prefix_(prefix_of(rank, whose)), bytes_(bytes) {}

std::string Slots::shard(int slot) const { return prefix_ + (slot == 0 ? "a" : "b") + ".h5"; }

std::string Slots::path(int slot, const char* suffix) const {
  return directory_ + "/" + prefix_ + (slot == 0 ? "a" : "b") + suffix;
}

std::optional<SlotHeader> Slots::header(int slot) const {
  for (const char* suffix : {confirmed, unconfirmed}) try {
      const std::string file = path(slot, suffix);
      if (!exists(file)) continue;
      SlotHeader header = parse_slot_header(read_whole(file, header_limit_bytes));
      header.complete = suffix == confirmed;
      return header;
    } catch (const Error&) {  // damaged: it holds nothing
    }
  return std::nullopt;
}

Index Slots::reserved_bytes() const {
  Index bytes = 0;
  for (int slot = 0; slot < count; ++slot)
    bytes += std::min(allocated_bytes(directory_ + "/" + shard(slot)), bytes_);
  return bytes;
}

void Slots::reserve() {
  for (int slot = 0; slot < count; ++slot) reserve(slot);
}

// Writing to mapped memory cannot fail, but ends the process where the file system has no page for
// it: so all pages are taken here.
void Slots::reserve(int slot) {
  make_private_directory(directory_);
  const std::string file = directory_ + "/" + shard(slot);
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  const int descriptor = check_call(
      repeat_interrupted([&] { return ::open(file.c_str(), flags, 0600); }), file, "open");
  const std::shared_ptr<void> closed(nullptr, [descriptor](void*) { ::close(descriptor); });
  struct stat status {};
  check_call(::fstat(descriptor, &status), file, "fstat");
  if (status.st_size != bytes_) {
    begin(slot);
    check_call(repeat_interrupted([&] { return ::ftruncate(descriptor, 0); }), file, "ftruncate");
  }
  const int reserved =
      repeat_interrupted([&] { return ::fallocate(descriptor, 0, 0, std::max<Index>(bytes_, 1)); });
  const int reason = errno;
  require(reserved == 0, file, ": ", show_bytes(bytes_), " are needed, ",
          show_bytes(free_bytes(directory_)), " are free (", std::strerror(reason), ")");
  const auto length = static_cast<std::size_t>(bytes_);
  void* data = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  require_call(data != MAP_FAILED, file, ": cannot be mapped");
  memory_[static_cast<std::size_t>(slot)] = Buffer(
      data, bytes_, std::shared_ptr<void>(data, [length](void* at) { ::munmap(at, length); }));
}

// A header must not come back, after a power cut, beside a shard that was being overwritten: so its
// removal is synced first. The checksums would show it as well.
void Slots::write(int slot, const std::byte* from, const SlotHeader& header,
                  const std::function<void()>& before_piece) const {
  begin(slot);
  sync_directory(directory_);
  const std::string path = directory_ + "/" + shard(slot);
  File file = exists(path) ? File::open_to_write(path, Caching::direct)
                           : File::create(path, Caching::direct);
  const Index whole = round_up(bytes_, File::direct_alignment);  // memory has whole pages
  file.reserve(whole);
  for (Index at = 0; at < whole; at += piece_bytes) {
    before_piece();
    file.write_at(at, from + at, std::min(piece_bytes, whole - at));
    if (file.caching() == Caching::buffered) file.sync();  // else the last sync would take it all
  }
  file.truncate(bytes_);
  file.sync();
  file.close();
  finish(slot, header);
  sync_directory(directory_);
}

void Slots::read(int slot, std::byte* to, const std::function<void()>& has_read) const {
  const File file = File::open(directory_ + "/" + shard(slot), Caching::direct);
  require(file.size() == bytes_, file.path(), ": has ", file.size(), " bytes instead of ", bytes_);
  for (Index at = 0; at < bytes_; at += piece_bytes) {
    const Index wanted = std::min(piece_bytes, bytes_ - at);
    const Index got = file.read_at(at, to + at, round_up(wanted, File::direct_alignment));
    require(got >= wanted, file.path(), ": ends at byte ", at + got, " of ", bytes_);
    has_read();
  }
}

void Slots::begin(int slot) const {
  for (const char* suffix : {confirmed, unconfirmed, unfinished}) remove_file(path(slot, suffix));
}

void Slots::finish(int slot, const SlotHeader& header) const {
  const std::string fresh = path(slot, unfinished);
  remove_file(fresh);
  write_whole(fresh, to_text(header));
  rename_path(fresh, path(slot, unconfirmed));
}

void Slots::confirm(int slot) const { rename_path(path(slot, unconfirmed), path(slot, confirmed)); }

void describe(RecordOf<SlotHeader> auto& header, auto& member) {
  constexpr int most = std::numeric_limits<int>::max();
  member.constant("what", std::string("trireme snapshot"));
  member.constant("format", 1);
  member("step", header.step);
  member("job", header.job);
  member("rank", within(header.rank, 0, most));
  member("ranks", within(header.ranks, 1, most));
  member("form", header.form);
  member.constant("block_bytes", block_bytes);
  member("blocks", header.blocks);
}

std::string to_text(const SlotHeader& header) {
  return with_checksum(trireme::to_text(to_json(header)) + "\n");
}

SlotHeader parse_slot_header(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the header"));
  const SlotHeader header = from_json<SlotHeader>(json, "the header");
  require(header.rank < header.ranks, "the header is of rank ", header.rank, " of ", header.ranks);
  return header;
}

}  // namespace trireme::store
