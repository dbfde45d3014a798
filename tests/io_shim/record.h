// What a process did to its files, call by call, with the data it wrote: enough to say what a disk
// may hold after the power went at any of them. Calls that failed changed nothing and are left out.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace io_shim {

/// `name`: create, pwrite, truncate, reserve, fsync, rename, exchange, link, unlink, rmdir or
/// mkdir.
struct Record {
  const char* name;
  std::string path,
      other = "";           // other: what it is called from now on, for rename, exchange and link
  std::int64_t offset = 0;  // of what is written; the new size, for truncate and reserve
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

/// One call at a time while it is held, so that the order of records is that of the calls. Free
/// where nothing is recorded.
std::unique_lock<std::recursive_mutex> recording_order();

/// Adds `text` to the end of `file`, unseen by the shim; nothing where `file` is "". Keeps errno.
void append(const std::string& file, const std::string& text);

/// Appends "name offset bytes path-bytes other-bytes\n", path, other, data.
void append(const Record& record);

}  // namespace io_shim
