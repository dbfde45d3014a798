#include "tests/layering/layering.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <fmt/core.h>

#include "tests/layering/comments.h"
#include "tests/layering/early_errno.h"
#include "tests/layering/kinds.h"
#include "tests/layering/literals.h"
#include "tests/layering/made_files.h"
#include "tests/layering/option_lists.h"
#include "tests/layering/types.h"

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

// Which modules a module may include, besides itself.
const Imports may_import = {
    {"core", {}},
    {"kernels", {"core"}},
    {"observe", {"core"}},
    {"comm", {"core", "observe"}},
    {"store", {"core"}},
    {"data", {"core"}},
    {"graph", {"core", "comm"}},
    {"nn", {"core", "kernels", "comm", "graph"}},
    {"pipeline", {"core", "comm", "graph"}},
    {"optim", {"core", "kernels", "comm", "graph"}},
    {"models", {"core", "graph", "nn"}},
    {"interop", {"core", "store", "models"}},
    {"rank_plan", {"core", "kernels", "graph", "pipeline", "optim"}},
    {"options", {"core", "kernels", "data", "pipeline", "optim", "models", "rank_plan"}},
    {"cost", {"core", "kernels", "graph", "nn", "pipeline", "optim", "models", "rank_plan"}},
    {"layouts",
     {"core", "kernels", "graph", "nn", "pipeline", "optim", "models", "rank_plan", "options",
      "cost"}},
    {"job", {"core", "kernels", "observe", "comm", "store", "interop", "options"}},
    {"checkpoint",
     {"core", "observe", "comm", "store", "data", "optim", "interop", "options", "job"}},
    {"train",
     {"core", "kernels", "observe", "comm", "store", "data", "graph", "nn", "pipeline", "optim",
      "models", "interop", "rank_plan", "options", "cost", "layouts", "job", "checkpoint"}},
};

// A header of runtime/ that other modules need although it is not installed has this line. An empty
// comment line before it keeps the formatter from joining it with a paragraph.
const std::string for_modules_above = "// Not installed; modules above may include it.";

// Values of options that decide what a model computes: each place names all of them.
constexpr const char* decided_by_switches[] = {"OptimizerOptions::Kind", "MlpKind", "Normalization",
                                               "PositionKind", "RotaryScalingKind"};

// A third-party package: how its headers begin, the folder that may include them, and in how many
// files.
struct Package {
  const char* name;
  std::vector<std::string> prefixes;
  const char* home;  // below this folder only
  int most_files;
};
// Public headers that trireme.h leaves out, so that a change compiles few sources again
// (tests/layering/fan_in.h): families of kernels.
const std::vector<std::string> included_on_demand = {"include/trireme/kernels/"};

// Where this process is doubled. All others start programs as a Child, so that files, signals and
// ends of programs are right in one place.
const std::set<std::string> may_fork = {
    "runtime/core/process/child.cpp",
    "runtime/job/layout/check_layout.cpp"};  // runs on in the same image

constexpr int any_number = 1'000'000;
constexpr int most_lines_of_a_header = 250, most_lines_of_a_source = 800;
const std::vector<Package> packages = {
    {"MPI", {"mpi.h"}, "runtime/comm/mpi/", any_number},
    {"NCCL", {"nccl"}, "runtime/comm/nccl/", any_number},
    {"HDF5", {"hdf5", "H5"}, "runtime/store/hdf5/", any_number},
    {"oneDNN", {"dnnl", "oneapi/dnnl"}, "kernels/cpu/", 1},
    {"CLI11", {"CLI/"}, "runtime/options/", 1},
    {"PCRE2", {"pcre2.h"}, "runtime/data/tokenizer/", 1},
    {"utf8proc", {"utf8proc"}, "runtime/data/tokenizer/", 1},
    {"nlohmann-json", {"nlohmann/"}, "runtime/core/", 1},
    {"zlib", {"zlib.h"}, "runtime/data/prepare/", 1},
    {"bzip2", {"bzlib.h"}, "runtime/data/prepare/", 1},
    {"liblzma", {"lzma.h"}, "runtime/data/prepare/", 1},
    {"zstd", {"zstd.h"}, "runtime/data/prepare/", 1},
};

// What declares options of all programs, and may list them to check them.
const char* const home_of_options = "runtime/options/";
// Modules below options: their messages name options that modules above declare.
const std::set<std::string> below_options = {"core",  "kernels", "observe",  "comm",
                                             "data",  "graph",   "nn",       "pipeline",
                                             "optim", "models",  "rank_plan"};
constexpr int few_options = 3;

struct Include {
  int line;
  bool angled;  // <...>
  std::string what;
};

struct File {
  std::string path;  // relative to the root
  int lines = 0;
  std::vector<Include> includes;
  std::string text;
};

File read(const fs::path& root, const fs::path& path) {
  File file{fs::relative(path, root).generic_string(), 0, {}, {}};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line); ++file.lines) {
    file.text += line + '\n';
    const auto hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const auto word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    const auto open = line.find_first_of("<\"", word);
    if (open == std::string::npos) continue;
    const auto close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    file.includes.push_back(
        {file.lines + 1, line[open] == '<', line.substr(open + 1, close - open - 1)});
  }
  return file;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}
bool is_header(const std::string& path) { return path.ends_with(".h") || path.ends_with(".cuh"); }
bool is_checked(const std::string& path) {
  const bool source = is_header(path) || path.ends_with(".cpp") || path.ends_with(".cu");
  return source && path.find("/fixture/") == std::string::npos &&
         !starts_with(path, "runtime/cmake/");
}

// The first folder of `path` behind `prefix`: module_behind("runtime/comm/mpi.cpp", "runtime/") is
// "comm".
std::string module_behind(const std::string& path, const std::string& prefix) {
  const auto end = path.find('/', prefix.size());
  return starts_with(path, prefix) && end != std::string::npos
             ? path.substr(prefix.size(), end - prefix.size())
             : "";
}

// The module that a path of the tree, or of an #include, belongs to; "" for none.
std::string module_of(const std::string& path) {
  if (starts_with(path, "kernels/")) return "kernels";
  for (const char* prefix : {"include/trireme/", "runtime/", "trireme/"})
    if (const std::string module = module_behind(path, prefix); !module.empty()) return module;
  return "";
}

class Checker {
 public:
  explicit Checker(const fs::path& root)
      : root_(root),
        declared_options_(read_declared_options(home_of_options)),
        command_options_(read_declared_options("launch/")) {
    for (const char* folder : {"include", "runtime", "kernels", "examples", "launch", "tests"}) {
      if (!fs::exists(root / folder)) continue;
      const fs::recursive_directory_iterator entries(root / folder);
      std::set<fs::path> paths(begin(entries),
                               end(entries));  // sorted: the same report on every file system
      for (const fs::path& path : paths)
        if (is_checked(fs::relative(path, root).generic_string())) check(read(root, path));
    }
    check_reached();
    for (const Package& package : packages)
      for (std::size_t i = static_cast<std::size_t>(package.most_files);
           i < users_[package.name].size(); ++i)
        say(users_[package.name][i], 1,
            fmt::format("{} is included by {} files, but one may", package.name,
                        users_[package.name].size()));
    std::sort(found_.begin(), found_.end());
  }

  std::vector<std::string> found() const { return found_; }

 private:
  void say(const std::string& path, int line, const std::string& text) {
    found_.push_back(fmt::format("{}:{}: {}", path, line, text));
  }

  void check(const File& file) {
    const int most = is_header(file.path) ? most_lines_of_a_header : most_lines_of_a_source;
    if (file.lines > most)
      say(file.path, file.lines,
          fmt::format("{} lines, at most {}: split by idea", file.lines, most));
    for (const int line : lines_of_early_errno(file.text))
      say(file.path, line,
          "errno may be read before the call that sets it: require_call reads it after (or keep "
          "it in a variable before require)");
    for (const int line : lines_of_defaults(file.text))
      say(file.path, line,
          "a new kind would go to default: name all, so that the compiler finds a missing one");
    if (starts_with(file.path, "tests/")) return;  // tests may include what they like
    check_comments(file);
    check_made_files(file);
    check_option_lists(file);
    check_forks(file);
    for (const char* kind : decided_by_switches)
      for (const int line : lines_of_comparisons(file.text, kind))
        say(file.path, line,
            fmt::format("a new {} would go where the others go: decide by a switch over all "
                        "(runtime/models/kinds.h)",
                        kind));
    if (starts_with(file.path, "include/")) public_includes_[file.path] = file.includes;
    for (const char* part : {"include/", "runtime/", "kernels/"})
      if (starts_with(file.path, part)) check_types(file);
    for (const char* part : {"runtime/", "kernels/"})
      if (starts_with(file.path, part)) check_namespace(file);
    const bool example = starts_with(file.path, "examples/");
    const std::string module =
        example || starts_with(file.path, "launch/") ? "" : module_of(file.path);
    if (!module.empty() && !may_import.contains(module))
      say(file.path, 1, fmt::format("no module is called {}", module));
    if (below_options.contains(module)) check_messages(file, module);
    std::set<std::string> used;
    for (const Include& include : file.includes) {
      if (example) check_example(file, include);
      if (!module.empty()) check_arrow(file, module, include);
      if (starts_with(file.path, "include/")) check_public(file, include);
      for (const Package& package : packages)
        for (const std::string& prefix : package.prefixes)
          if (starts_with(include.what, prefix)) {
            if (!starts_with(file.path, package.home))
              say(file.path, include.line,
                  fmt::format("{} belongs in {} only", package.name, package.home));
            if (used.insert(package.name).second) users_[package.name].push_back(file.path);
          }
    }
  }

  void check_comments(const File& file) {
    if (!is_header(file.path)) return;
    for (const int line : lines_of_fragments(file.text))
      say(file.path, line,
          "a comment begins without a subject: write a sentence (\"Returns the bytes of ...\"), "
          "and behind a member what it is (\"bytes per rank\")");
  }

  /// What a user has at the path of an output is looked at in one place.
  void check_made_files(const File& file) {
    if (makers_of_files().contains(file.path)) return;
    for (const MadeFile& made : made_files_of(file.text))
      say(file.path, made.line,
          fmt::format("{} makes a file: programs write by open_output (output_file.h), Unfinished "
                      "or write_output (unfinished.h), which replace no file of others; other "
                      "places are listed in tests/layering/made_files.cpp",
                      made.call));
  }

  void check_forks(const File& file) {
    static const std::regex call(R"(\b(fork|vfork|popen|posix_spawnp?|std::system)\()");
    if (may_fork.contains(file.path)) return;
    const std::string code = code_of(file.text);
    for (std::sregex_iterator at(code.begin(), code.end(), call), end; at != end; ++at)
      say(file.path,
          static_cast<int>(std::count(code.begin(), code.begin() + at->position(), '\n')) + 1,
          "starts a program: a Child (runtime/core/process/child.h) has its output, limit and end");
  }

  void check_messages(const File& file, const std::string& module) {
    for (const Literal& literal : literals_of(file.text))
      for (const std::string& option : options_in(literal.text))
        if (!declared_options_.contains(option) && !command_options_.contains(option))
          say(file.path, literal.line,
              fmt::format("{} names the option {}, which no program declares", module, option));
  }

  /// What is known of an option is an attribute of its declaration.
  void check_option_lists(const File& file) {
    if (starts_with(file.path, home_of_options)) return;
    for (const OptionList& list : option_lists_in(file.text))
      if (std::count_if(list.names.begin(), list.names.end(), [&](const std::string& name) {
            return declared_options_.contains(name);
          }) >= few_options)
        say(file.path, list.line,
            fmt::format("{} and others are listed by name: declare what they have in common "
                        "(OptionUse, command_line.h) and ask for that",
                        list.names.front()));
  }

  std::set<std::string> read_declared_options(const std::string& folder) const {
    std::set<std::string> all;
    if (!fs::exists(root_ / folder)) return all;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / folder))
      if (entry.path().extension() == ".cpp")
        all.merge(options_declared_in(read(root_, entry.path()).text));
    return all;
  }

  /// What users do not call is not installed: every header of include/ is one that trireme.h
  /// brings, or of those that a program includes for itself.
  void check_reached() {
    const std::string all = "include/trireme/trireme.h";
    if (!public_includes_.contains(all)) return;
    std::set<std::string> reached;
    std::vector<std::string> open = {all};
    for (const auto& [header, includes] : public_includes_)
      for (const std::string& prefix : included_on_demand)
        if (starts_with(header, prefix)) open.push_back(header);
    while (!open.empty()) {
      const std::string header = open.back();
      open.pop_back();
      if (!reached.insert(header).second) continue;
      for (const Include& include : public_includes_[header])
        if (starts_with(include.what, "trireme/")) open.push_back("include/" + include.what);
    }
    for (const auto& [header, includes] : public_includes_)
      if (!reached.contains(header))
        say(header, 1,
            "trireme.h does not include it, so it is not for users: put it beside its sources");
  }

  /// Two types of one name in one library are one to the linker.
  void check_types(const File& file) {
    for (const DeclaredName& type : types_of(file.text)) {
      const auto [first, fresh] = types_.emplace(type.name, file.path);
      if (!fresh && first->second != file.path)
        say(file.path, type.line,
            fmt::format("{} is a type in {} too: give it the namespace of its module, or another "
                        "name",
                        type.name, first->second));
    }
  }

  /// Names of private headers are as general as Step or Image: each module has its own.
  void check_namespace(const File& file) {
    if (!is_header(file.path) || is_for_modules_above(file.path)) return;
    const std::string module = module_of(file.path);
    for (const DeclaredName& declared : names_in_trireme(file.text))
      say(file.path, declared.line,
          fmt::format("{} is private to {}: declare it in trireme::{}", declared.name, module,
                      module));
  }

  void check_example(const File& file, const Include& include) {
    if (starts_with(include.what, "trireme/") && include.what != "trireme/trireme.h")
      say(file.path, include.line,
          fmt::format("an example sees trireme/trireme.h only, not {}", include.what));
    if (starts_with(include.what, "runtime/") || starts_with(include.what, "kernels/"))
      say(file.path, include.line,
          fmt::format("an example sees no inside of trireme: {}", include.what));
  }

  void check_public(const File& file, const Include& include) {
    const bool standard = include.angled && include.what.find_first_of("./") == std::string::npos;
    if (!standard && !starts_with(include.what, "trireme/"))
      say(file.path, include.line,
          fmt::format("a public header includes only the standard library and trireme, not {}",
                      include.what));
  }

  void check_arrow(const File& file, const std::string& module, const Include& include) {
    if (include.what == "trireme/trireme.h")
      return say(file.path, include.line,
                 fmt::format("{} includes trireme.h, which is above it", module));
    const std::string target = module_of(include.what);
    if (target.empty() || target == module) return;
    const auto allowed = may_import.find(module);
    if (allowed == may_import.end()) return;
    if (!allowed->second.contains(target))
      say(file.path, include.line,
          fmt::format("{} may not import {} ({})", module, target, include.what));
    else if (!starts_with(include.what, "trireme/") && !is_for_modules_above(include.what))
      say(file.path, include.line,
          fmt::format("{} includes {}, which is private to {}", module, include.what, target));
  }

  bool is_for_modules_above(const std::string& header) const {
    std::ifstream in(root_ / header);
    for (std::string line; std::getline(in, line);)
      if (line == for_modules_above) return true;
    return false;
  }

  const fs::path root_;
  std::set<std::string> declared_options_, command_options_;
  std::vector<std::string> found_;
  std::map<std::string, std::vector<std::string>> users_;        // package -> files
  std::map<std::string, std::vector<Include>> public_includes_;  // of each public header
  std::map<std::string, std::string> types_;                     // type -> the first file with it
};

}  // namespace

std::vector<std::string> problems(const fs::path& root) { return Checker(root).found(); }

const Imports& imports_of_modules() { return may_import; }

}  // namespace trireme::layering
