// What stands at the path where a program is to write, looked at before work starts and again when
// the file is opened. Nothing is written into, or in place of, what the program has not written
// itself; see OutputKind. Directories that all users share are no danger: what another user has put
// there is not used, and no link is followed that leads to nothing.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "runtime/core/output/output_kinds.h"

namespace trireme {

/// Why no file of this kind can be written at `path`, as the end of a sentence that begins with the
/// path; "" where it can: nothing is there, or an empty file, or a file of the kind; for text also
/// a pipe, a terminal or another device. Changes nothing.
std::string why_no_output(const std::string& path, const OutputKind& kind);

/// The kind of a file of numbers that `index` describes: it is ours where the index is there.
const OutputKind& kind_beside(const std::string& index);

/// Why nothing can be made in a directory, or "".
std::string why_not_writable(const std::string& directory);
/// Why a directory cannot be used, or be made in one that exists; "" where it can.
std::string why_no_output_directory(const std::string& path);

/// Returns the parent of a path: "a" for "a/b" and "a/b/", "." for "b".
std::string parent_directory(const std::string& path);
/// Whether both name the same place, whether it exists or not, and however they are written.
bool same_place(const std::string& a, const std::string& b);

/// A descriptor for text at `path`, which is made where it is missing: to append to what is there
/// and to read it (where it is a file), or to write into a pipe or device. Throws: Error "PATH:
/// WHY" as why_no_output(), and where no program reads the pipe.
int open_output(const std::string& path, const OutputKind& kind);

/// What `path` names where that is no file to be replaced as a whole: a pipe or a device.
bool is_stream(const std::string& path);
/// The file that a link at `path` leads to, so that the link stays; else `path`.
std::string behind_links(const std::string& path);

// Paths of which a user gives the beginning: PREFIX of PREFIX.bin.

/// Why `prefix` can hardly be meant as the beginning of names, as the end of a sentence that begins
/// with it; "": a file may have that name, as "book" beside "book.bin".
std::string why_no_prefix(const std::string& prefix);

}  // namespace trireme
