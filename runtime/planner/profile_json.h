// Profiles in files, and those that are installed with the program.
//
// Not installed; modules above may include it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/planner/profile.h"

namespace trireme::planner {

/// `source`: for messages, such as the name of the file. Throws: Error that names source, field,
/// value and what would be right.
Profile parse_profile(std::string_view text, const std::string& source);
Profile read_profile(const std::filesystem::path& file);
/// The text of such a file, a member a line. `when`: for people.
std::string text_of(const Profile& profile, const std::string& when);

/// The profiles of data sheets, by name: "A100-40GB", "A100-80GB", "H100-SXM", "H200", "L40S",
/// "RTX-4090".
std::vector<std::string> known_profiles();
/// `name` in any case, also shortened where one profile is meant: "h100", "4090", "A100-80".
/// Throws: Error that lists known_profiles().
Profile known_profile(std::string_view name);
/// Of a GPU in use: of those with its capability and multiprocessors the one with the least memory
/// that is not less than `free` bytes, which are free on it. Throws: Error that lists
/// known_profiles().
Profile known_profile(const DeviceTraits& gpu, Index free);

/// runtime/planner/profiles/*.json.
std::vector<std::string_view> texts_of_known_profiles();

}  // namespace trireme::planner
