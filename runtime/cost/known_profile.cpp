// What people call GPUs, and the profiles of data sheets that they mean by it.
#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "runtime/cost/profile.h"

namespace trireme::cost {
namespace {

/// "NVIDIA A100-SXM4-80GB" -> a100, sxm4, 80: without vendors and units.
std::vector<std::string> words_of(std::string_view name) {
  const std::set<std::string, std::less<>> meaningless = {
      "nvidia", "amd", "geforce", "instinct", "tesla", "gpu", "gb", "gib", ""};
  std::vector<std::string> words(1);
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0)
      words.emplace_back();
    else
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::string& word : words) {
    const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
    if (digits > 0 && (word.substr(digits) == "gb" || word.substr(digits) == "gib"))
      word.resize(digits);
  }
  std::erase_if(words, [&](const std::string& word) { return meaningless.count(word) > 0; });
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

std::vector<std::string> names_of(const Profile& profile) {
  std::vector<std::string> names = profile.names;
  names.push_back(profile.name);
  return names;
}

bool is_called(const Profile& profile, const std::string& joined_name) {
  const std::vector<std::string> names = names_of(profile);
  return std::any_of(names.begin(), names.end(), [&](const std::string& each) {
    return joined(words_of(each)) == joined_name;
  });
}

bool has_words(const Profile& profile, const std::vector<std::string>& words) {
  std::set<std::string> known;
  for (const std::string& name : names_of(profile))
    for (const std::string& word : words_of(name)) known.insert(word);
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return known.count(word) > 0; });
}

std::vector<Profile> all_known() {
  std::vector<Profile> all;
  for (const std::string_view text : texts_of_known_profiles())
    all.push_back(parse_profile(text, "a profile of this program"));
  std::sort(all.begin(), all.end(),
            [](const Profile& a, const Profile& b) { return a.name < b.name; });
  return all;
}

std::string list_of(const std::vector<Profile>& profiles) {
  std::string names;
  for (const Profile& profile : profiles) names += (names.empty() ? "" : ", ") + profile.name;
  return names;
}

/// "rtx" of "RTX 5080": the letters before the number.
std::string family_of(std::string_view name) {
  const std::string all = joined(words_of(name));
  return all.substr(0, all.find_first_of("0123456789"));
}

/// "; of its family there are RTX-4090, RTX-5090", or "". Another number is another GPU, however
/// few letters differ.
std::string suggestion(std::string_view name, const std::vector<Profile>& among) {
  std::vector<Profile> relatives;
  const std::string family = family_of(name);
  for (const Profile& profile : among)
    if (!family.empty() && family_of(profile.name) == family) relatives.push_back(profile);
  return relatives.empty() ? "" : "; of its family there are " + list_of(relatives);
}

}  // namespace

std::vector<Profile> profiles_called(std::string_view name, const std::vector<Profile>& among) {
  const std::vector<std::string> words = words_of(name);
  std::vector<Profile> found;
  if (words.empty()) return found;
  for (const Profile& profile : among)
    if (is_called(profile, joined(words))) return {profile};
  for (const Profile& profile : among)
    if (has_words(profile, words)) found.push_back(profile);
  return found;
}

std::vector<std::string> known_profiles() {
  std::vector<std::string> names;
  for (const Profile& profile : all_known()) names.push_back(profile.name);
  return names;
}

bool is_known_gpu(std::string_view name) { return !profiles_called(name, all_known()).empty(); }

bool is_of_known_family(std::string_view name) { return !suggestion(name, all_known()).empty(); }

Profile known_profile(std::string_view name) {
  const std::vector<Profile> all = all_known(), found = profiles_called(name, all);
  require(!found.empty(), "the GPU '", name, "' is not known: expected one of ", list_of(all),
          ", or the file of a profile", suggestion(name, all));
  require(found.size() == 1, "the GPU '", name, "' is not one GPU but several: expected one of ",
          list_of(found));
  return found.front();
}

Profile known_profile(const DeviceTraits& gpu, Index free) {
  const std::vector<Profile> all = all_known();
  std::optional<Profile> found;
  for (const Profile& profile : all)
    if (profile.device.capability == gpu.capability &&
        profile.device.multiprocessors == gpu.multiprocessors && profile.memory >= free &&
        (!found || profile.memory < found->memory))
      found = profile;
  require(found.has_value(), "there is no profile of this ", gpu.describe(), ", with ",
          show_bytes(free), " free; the profiles are those of ", list_of(all));
  return *found;
}

}  // namespace trireme::cost
