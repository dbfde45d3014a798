// The file of a status page, as tests read and damage it.
#pragma once

#include <cstddef>
#include <fstream>
#include <ios>

#include "runtime/observe/page_reader.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {

inline PageState read(const ScratchDirectory& folder, int rank = 0) {
  return PageReader(page_path(folder.path(), rank)).read();
}

/// Writes bytes into the file of rank 0, as a damaged memory would.
template <class T>
void overwrite(const ScratchDirectory& folder, std::size_t offset, const T& value) {
  std::fstream file(page_path(folder.path(), 0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace trireme::observe
