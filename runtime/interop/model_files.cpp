#include "runtime/interop/model_files.h"

#include <filesystem>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/core/json/json_record.h"
#include "runtime/interop/hf_files.h"
#include "runtime/store/file.h"
#include "runtime/store/write/held_path.h"

namespace trireme::interop {
namespace {

namespace fs = std::filesystem;

constexpr const char* config_name = "config.json";
constexpr const char* facts_name = "origin.json";

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string kept_in(const std::string& run) { return run + '/' + kept_directory; }

/// Fills a new directory by `fill`(path), then gives it the name RUN/hf.
template <class Fill>
void replace_kept(const std::string& run, Fill&& fill) {
  const std::string kept = kept_in(run);
  check_kept_place(run);
  HeldPath unfinished(HeldPath::Kind::directory, kept + ".", ".tmp");
  fill(unfinished.path());
  sync_directory(unfinished.path());
  if (!exists(kept)) {
    rename_path(unfinished.path(), kept);
    unfinished.keep();
  } else if (!exchange_paths(unfinished.path(), kept)) {
    fs::remove_all(kept);  // this file system cannot exchange names
    rename_path(unfinished.path(), kept);
    unfinished.keep();
  }
  sync_directory(run);
}

void copy(const std::string& from, const std::string& to, const std::string& name) {
  write_whole(to + '/' + name, read_whole(from + '/' + name, largest_kept_file));
}

}  // namespace

std::string why_no_model(const std::string& directory) {
  if (exists(directory + '/' + config_name)) return "";
  const std::string other = instead_of(FilesOf::model, directory);
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return str(directory, ": ", other);
  return str(directory, ": has no config.json; ",
             other.empty() ? "the directory of a Hugging Face model is needed" : other);
}

ModelFiles open_model(const std::string& directory) {
  ModelFiles model;
  std::string all = why_no_model(directory);
  require(all.empty(), all);
  const auto add = [&](const std::string& lines) { all += (all.empty() ? "" : "\n") + lines; };
  const auto attempt = [&](auto&& part) {
    try {
      part();
    } catch (const Error& error) {
      add(error.what());
    }
  };
  attempt([&] { model.config = read_hf_config(directory + '/' + config_name); });
  const bool has_config = all.empty();
  attempt([&] { model.files = safetensors::open_directory(directory); });
  if (all.empty()) {
    model.views = hf_views(model.config.model_type, model.config.model);
    for (const std::string& problem : fit(model.views, model.files, model.config.notes))
      add(str(directory, ": ", problem));
  }
  attempt([&] {
    for (const std::string& problem : problems_of_kept_files(directory))
      if (has_config || !problem.starts_with(config_name)) add(str(directory, ": ", problem));
  });
  require(all.empty(), all);
  note_tokenizer_code(directory, model.config);
  return model;
}

void note_tokenizer_code(const std::string& directory, HfConfig& config) {
  const std::string name = "tokenizer_config.json", path = directory + '/' + name;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  try {
    const Json json = parse_json(read_whole(path, largest_kept_file));
    if (const Json* map = json.find("auto_map"))
      config.notes.push_back(str(name, " names code, which is neither run nor exported: auto_map ",
                                 shown(*map), "; trireme reads tokenizer.json alone"));
  } catch (const Error&) {  // trireme does not use the file
  }
}

void check_kept_place(const std::string& run) {
  const std::string kept = kept_in(run);
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(kept, ignored);
  if (!fs::exists(there)) return;
  const bool ours =
      fs::is_directory(there) && (exists(kept + '/' + facts_name) || fs::is_empty(kept, ignored));
  require(ours, kept, ": exists, and is not what a run keeps of a Hugging Face model (there is no ",
          facts_name, " in it); remove it, or use another directory");
}

void keep_files(const std::string& model, const std::string& run, const KeyValues& facts) {
  replace_kept(run, [&](const std::string& path) {
    for (const HfFile kind : {HfFile::config, HfFile::kept})
      for (const std::string& name : files_of_kind(model, kind)) copy(model, path, name);
    write_whole(path + '/' + facts_name,
                to_text(Json(Json::Object(facts.begin(), facts.end()))) + '\n');
  });
}

KeyValues kept_facts(const std::string& run) {
  const std::string path = kept_in(run) + '/' + facts_name;
  if (!exists(path)) return {};
  KeyValues facts;
  const Json json = parse_json(read_whole(path, largest_kept_file));
  JsonReader reader(json, path);
  JsonForm<KeyValues>::read(reader, facts);
  return facts;
}

void keep_kept(const std::string& from_run, const std::string& run) {
  if (!exists(kept_in(from_run)) || exists(kept_in(run))) return;
  replace_kept(run, [&](const std::string& path) {
    for (const std::string& name : list_directory(kept_in(from_run)))
      copy(kept_in(from_run), path, name);
  });
}

std::string directory_of_config(const std::string& directory, const std::string& run) {
  if (exists(directory + '/' + config_name)) return directory;
  return !run.empty() && exists(kept_in(run) + '/' + config_name) ? kept_in(run) : "";
}

}  // namespace trireme::interop
