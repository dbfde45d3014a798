// Directories of one user below a directory that all users of a machine share, such as /tmp and
// /dev/shm. There anybody can make any name beforehand, so nothing is trusted because it exists.
// What is private is a directory and no link, belongs to the user, and no other user can write in
// it: then only this user can have made what lies in it. That it also stays where it is needs a
// shared directory that is sticky, as those two are; in a container, which has one user, they may
// not be.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace trireme {

/// Whether `path` is a private directory of the user `owner`.
bool is_private_directory(const std::string& path, uid_t owner = ::geteuid());

/// Makes a private directory of this user, which no other user can enter, and those above it that
/// are missing; or takes the one that is there. Throws: Error that says what has the name
/// otherwise, why it cannot be made, or which directory above it is in the hands of others.
void make_private_directory(const std::string& path);

/// The path that processes which give the same `path` all make and find: `path`, or, where that
/// name is taken by what is no private directory of this user, `path`.2 to `path`.9: the first that
/// is one, otherwise the first that is free. Makes nothing. Throws: Error where all are taken.
std::string private_path(const std::string& path);

/// Makes a private directory that no other user can foresee, in one that exists: `prefix`, "-" and
/// six random characters. Throws: Error, as make_private_directory().
std::string make_new_private_directory(const std::string& prefix);

/// The private directories of `owner` whose paths begin with `prefix`, a directory and the
/// beginning of a name in it; sorted.
std::vector<std::string> private_directories(const std::string& prefix, uid_t owner = ::geteuid());

}  // namespace trireme
