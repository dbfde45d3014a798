// Profiles in files, and those that are installed with the program.
//
// Not installed; modules above may include it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/profile.h"

namespace trireme::cost {

/// `source`: for messages, such as the name of the file. Throws: Error that names source, field,
/// value and what would be right.
Profile parse_profile(std::string_view text, const std::string& source);
Profile read_profile(const std::filesystem::path& file);
/// The text of such a file, a member a line. `when`: for people.
std::string text_of(const Profile& profile, const std::string& when);

/// The profiles of data sheets, by name: "A100-40GB", "A100-80GB", "B200", ...
std::vector<std::string> known_profiles();
/// The one of `among` that people mean by `name`: by what it is called, or by some of the words of
/// its names, in any case and with any separators: "h100", "4090", "A100-80", "NVIDIA H100 PCIe".
/// More than one where it may mean several, none where it is unknown.
std::vector<Profile> profiles_called(std::string_view name, const std::vector<Profile>& among);
/// Whether that is one of the data sheets, or several.
bool is_known_gpu(std::string_view name);
/// Whether there are data sheets of the same family: "RTX 5080" is of that of RTX-5090.
bool is_of_known_family(std::string_view name);
/// Returns the profile of a data sheet. Throws: Error that lists those that the name may mean, or
/// all, and those of its family.
Profile known_profile(std::string_view name);
/// Returns the profile of a GPU in use: of those with its capability and multiprocessors the one
/// with the least memory that is not less than `free` bytes, which are free on it. Throws: Error
/// that lists known_profiles().
Profile known_profile(const DeviceTraits& gpu, Index free);

/// runtime/cost/profiles/*.json.
std::vector<std::string_view> texts_of_known_profiles();

}  // namespace trireme::cost
