// What stands at the path where a program is to write, looked at before work starts and again when
// the file is opened. Nothing is written into, or in place of, what the program has not written
// itself; see OutputKind. Directories that all users share are no danger: what another user has put
// there is not used, and no link is followed that leads to nothing.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// Every kind of file that an option or a command of any program writes at a path of its user. A
/// program replaces what it recognises as a file of the same kind, and nothing else.
struct OutputKind {
  const char* what;  // in messages: "a file of metrics"
  /// The first bytes of every file of the kind; a file that a crash has cut short may have fewer.
  /// Null: a file that is there is never replaced.
  const char* mark;
  /// What follows the mark, as a regular expression (ECMAScript).
  const char* then = "";
  bool is_text = false;  // which may also go into a pipe or a device
};

namespace outputs {

inline constexpr OutputKind metrics{"a file of metrics", "{\"step\":", "", true};
inline constexpr OutputKind texts{"a file of generated texts", "{\"prompt\":", "", true};
inline constexpr OutputKind profile_of_ops{"a profile of ops", "{\"device\":\"",
                                           R"([^"]*","model":)", true};
inline constexpr OutputKind preflight{"a report of trireme preflight",
                                      "{\"format\":", R"(\d+,"nodes":\[)", true};
inline constexpr OutputKind device_profile{"a profile of a device",
                                           "{\"format\": ", R"(\d+,\s+"device": \{)"};
inline constexpr OutputKind tensor_index{"an index of dumped tensors", "",
                                         R"(\S+ (-|[0-9x]+) 0\n)"};
inline constexpr OutputKind token_index{"an index of token files", "MMIDIDX"};
inline constexpr OutputKind token_sidecar{"the sidecar of token files", "{",
                                          R"(\s*"trireme_corpus"\s*:)"};
/// Numbers without a mark, beside an index of ours that says what they are.
inline constexpr OutputKind numbers{"a file of numbers", ""};
/// What has to be new: exports, and numbers without an index.
inline constexpr OutputKind new_file{"", nullptr};

}  // namespace outputs

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
