#include "tests/crash/power_cut.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::test {

namespace fs = std::filesystem;

namespace {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Below `root`, without a slash in front.
std::string below(const std::string& path, const std::string& root) {
  if (path == root || path.empty()) return "";
  require(path.starts_with(root + "/"), path, " is recorded, but lies outside of ", root);
  return path.substr(root.size() + 1);
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<RecordedCall> read_record(const std::string& file, const std::string& root) {
  std::ifstream in(file, std::ios::binary);
  std::vector<RecordedCall> calls;
  RecordedCall call;
  std::size_t bytes, path_bytes, other_bytes;
  while (in >> call.name >> call.offset >> bytes >> path_bytes >> other_bytes) {
    in.get();
    std::string text(path_bytes + other_bytes + bytes, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    require(in.good(), file, " breaks off");
    call.path = below(text.substr(0, path_bytes), root);
    call.other = below(text.substr(path_bytes, other_bytes), root);
    call.data = text.substr(path_bytes + other_bytes);
    calls.push_back(call);
  }
  return calls;
}

Tree read_tree(const std::string& root) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = below(entry.path().string(), root);
    if (entry.is_directory())
      tree[path + "/"] = "";
    else
      tree[path] = content_of(entry.path());
  }
  return tree;
}

void write_tree(const Tree& tree, const std::string& root) {
  fs::remove_all(root);
  fs::create_directories(root);
  for (const auto& [path, content] : tree) {  // ordered: a directory before what is in it
    const std::string full = root + "/" + path;
    if (path.back() == '/')
      fs::create_directory(full);
    else
      std::ofstream(full, std::ios::binary) << content;
  }
}

Disk::Disk(const Tree& tree) {
  make(true);
  for (const auto& [path, content] : tree) {
    const bool is_directory = path.back() == '/';
    const std::string bare = is_directory ? path.substr(0, path.size() - 1) : path;
    const int node = make(is_directory), parent = find(directory_of(bare));
    nodes_[static_cast<std::size_t>(node)].durable = nodes_[static_cast<std::size_t>(node)].now =
        content;
    Node& directory = nodes_[static_cast<std::size_t>(parent)];
    directory.names[name_of(bare)] = directory.durable_names[name_of(bare)] = node;
  }
}

int Disk::make(bool is_directory) {
  nodes_.push_back({.is_directory = is_directory});
  return static_cast<int>(nodes_.size()) - 1;
}

int Disk::find(const std::string& path) const {
  if (path.empty()) return 0;
  const Node& parent = nodes_[static_cast<std::size_t>(find(directory_of(path)))];
  const auto found = parent.names.find(name_of(path));
  require(found != parent.names.end(), "a call is recorded to ", path, ", which is not there");
  return found->second;
}

void Disk::apply(const RecordedCall& call) {
  const std::string name = name_of(call.path);
  if (call.name == "create" || call.name == "mkdir") {
    change_names(call.path, {{name, make(call.name == "mkdir")}});
  } else if (call.name == "unlink" || call.name == "rmdir") {
    find(call.path);
    change_names(call.path, {{name, -1}});
  } else if (call.name == "link") {
    change_names(call.other, {{name_of(call.other), find(call.path)}});
  } else if (call.name == "rename" || call.name == "exchange") {
    require(directory_of(call.path) == directory_of(call.other), call.path, " -> ", call.other,
            ": a name is changed from one directory to another, which takes two syncs");
    const int there = call.name == "exchange" ? find(call.other) : -1;
    change_names(call.path, {{name, there}, {name_of(call.other), find(call.path)}});
  } else if (call.name == "pwrite") {
    change_file(find(call.path), {.number = changes_++, .offset = call.offset, .data = call.data});
  } else if (call.name == "truncate") {
    change_file(find(call.path), {.number = changes_++, .offset = call.offset, .resizes = true});
  } else if (call.name == "reserve") {
    const int node = find(call.path);
    const auto size = static_cast<std::int64_t>(nodes_[static_cast<std::size_t>(node)].now.size());
    change_file(node,
                {.number = changes_++, .offset = std::max(size, call.offset), .resizes = true});
  } else if (call.name == "fsync") {
    sync(find(call.path));
  } else {
    throw Error(str("what is a recorded ", call.name, "?"));
  }
}

void Disk::apply(const Change& change, Kept kept, std::string& bytes) {
  if (kept == Kept::nothing) return;
  if (change.resizes) {
    bytes.resize(static_cast<std::size_t>(change.offset));
    return;
  }
  const std::size_t half = change.data.size() / 2;
  const std::size_t from = kept == Kept::back ? half : 0,
                    to = kept == Kept::front ? half : change.data.size();
  const auto at = static_cast<std::size_t>(change.offset) + from;
  if (bytes.size() < at + (to - from)) bytes.resize(at + (to - from));  // a hole reads as zeros
  bytes.replace(at, to - from, change.data, from, to - from);
}

void Disk::apply(const Change& change, std::map<std::string, int>& names) {
  for (const auto& [name, node] : change.names)
    if (node < 0)
      names.erase(name);
    else
      names[name] = node;
}

void Disk::change_names(const std::string& path, std::map<std::string, int> names) {
  Node& directory = nodes_[static_cast<std::size_t>(find(directory_of(path)))];
  directory.pending.push_back({.number = changes_++, .names = std::move(names)});
  apply(directory.pending.back(), directory.names);
}

void Disk::change_file(int node, Change change) {
  Node& file = nodes_[static_cast<std::size_t>(node)];
  apply(change, Kept::all, file.now);
  file.pending.push_back(std::move(change));
}

void Disk::sync(int node) {
  Node& synced = nodes_[static_cast<std::size_t>(node)];
  synced.durable = synced.now;
  synced.durable_names = synced.names;
  synced.pending.clear();
}

Tree Disk::tree(Kept others, const Kepts& kepts) const {
  Tree tree;
  add_to(tree, "", 0, others, kepts);
  return tree;
}

void Disk::add_to(Tree& tree, const std::string& path, int index, Kept others,
                  const Kepts& kepts) const {
  const Node& node = nodes_[static_cast<std::size_t>(index)];
  const auto kept = [&](const Change& change) {
    const auto found = kepts.find(change.number);
    return found == kepts.end() ? others : found->second;
  };
  if (!node.is_directory) {
    std::string bytes = node.durable;
    for (const Change& change : node.pending) apply(change, kept(change), bytes);
    tree[path] = std::move(bytes);
    return;
  }
  std::map<std::string, int> names = node.durable_names;
  for (const Change& change : node.pending)
    if (kept(change) != Kept::nothing) apply(change, names);
  const std::string inside = path.empty() ? "" : path + "/";
  if (!path.empty()) tree[inside] = "";
  for (const auto& [name, child] : names) add_to(tree, inside + name, child, others, kepts);
}

std::set<Tree> Disk::after_cut(int random) const {
  std::set<Tree> found = {tree(Kept::nothing, {}), tree(Kept::all, {})};
  std::vector<std::size_t> pending;
  for (const Node& node : nodes_)
    for (const Change& change : node.pending) pending.push_back(change.number);
  for (const std::size_t number : pending)
    for (const Kept kept : {Kept::nothing, Kept::front, Kept::back, Kept::all}) {
      if (kept != Kept::all) found.insert(tree(Kept::all, {{number, kept}}));
      if (kept != Kept::nothing) found.insert(tree(Kept::nothing, {{number, kept}}));
    }
  std::mt19937 generator(static_cast<unsigned>(changes_));
  for (int i = 0; i < random; ++i) {
    Kepts kepts;
    for (const std::size_t number : pending) kepts[number] = static_cast<Kept>(generator() % 4);
    found.insert(tree(Kept::all, kepts));
  }
  return found;
}

}  // namespace trireme::test
