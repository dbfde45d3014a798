#include "runtime/core/files/other_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fnmatch.h>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A file or directory of another program. `pattern`: of its name, as of a shell.
struct OtherFile {
  FilesOf wanted;
  const char* pattern;
  const char* what;  // continues "it has NAME, "
  const char* remedy;
};

constexpr const char* from_transformers =
    "open it in transformers and write it with "
    "save_pretrained(DIR)";
constexpr const char* as_safetensors =
    "load the model there and write it as safetensors with "
    "save_pretrained(DIR) of transformers";

// The first row that fits is said: what explains most stands first.
constexpr OtherFile table[] = {
    {FilesOf::model, "adapter_config.json", "an adapter of PEFT without its model",
     "merge them with merge_and_unload().save_pretrained(DIR)"},
    {FilesOf::model, "model-*-of-*.safetensors",
     "a shard, but the index model.safetensors.index.json is missing",
     "copy it from where the shards came from"},
    {FilesOf::model, "consolidated*.safetensors",
     "weights with the names of Mistral's own programs",
     "download model*.safetensors of the same model"},
    {FilesOf::model, "consolidated.*.pth", "weights with the names of Meta's own programs",
     "download the files of the same model that transformers reads"},
    {FilesOf::model, "*.gguf", "a model of llama.cpp",
     "download the model that it was made from, in safetensors"},
    {FilesOf::model, "pytorch_model*", "which is pickled and not read", from_transformers},
    {FilesOf::model, "latest_checkpointed_iteration.txt", "a checkpoint of Megatron-LM",
     "convert it to a model of Hugging Face with its tools"},
    {FilesOf::model, "zero_to_fp32.py", "a checkpoint of DeepSpeed",
     "run that program, load its result and write it with save_pretrained(DIR)"},
    {FilesOf::model, "global_step*", "a checkpoint of DeepSpeed",
     "run zero_to_fp32.py, load its result and write it with save_pretrained(DIR)"},
    {FilesOf::model, "*.distcp", "a distributed checkpoint of PyTorch", as_safetensors},
    {FilesOf::model, "tf_model.h5", "weights of TensorFlow", as_safetensors},
    {FilesOf::model, "flax_model*.msgpack", "weights of Flax", as_safetensors},
    {FilesOf::model, "*.onnx", "a model of ONNX", "take the model that it was made from"},
    {FilesOf::model, "checkpoint.h5", "a step of a run of trireme",
     "load the run's directory, around it, as a checkpoint"},
    {FilesOf::model, "step-*", "a step of a run of trireme", "load this directory as a checkpoint"},
    {FilesOf::model, "snapshots", "the cache of a model of the hub",
     "give the directory snapshots/REVISION inside of it"},
    {FilesOf::model, "*.ckpt", "which is pickled and not read", as_safetensors},
    {FilesOf::model, "*.pth", "which is pickled and not read", as_safetensors},
    {FilesOf::model, "*.pt", "which is pickled and not read", as_safetensors},
    {FilesOf::model, "*.bin", "which is pickled or of another program and not read",
     as_safetensors},
    {FilesOf::model, "*.safetensors", "but the one file of a model is called model.safetensors",
     "rename it if it is the whole model"},
    {FilesOf::model, "config.json", "but no weights", "download *.safetensors of the model too"},
    {FilesOf::model, "tokenizer.json", "but no model",
     "download config.json and *.safetensors of the model too"},
    {FilesOf::tokenizer, "tokenizer.model*", "a model of SentencePiece, which is not read",
     "make tokenizer.json with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of "
     "transformers"},
    {FilesOf::tokenizer, "tekken.json", "a tokenizer of Mistral, which is not read",
     "make tokenizer.json with PreTrainedTokenizerFast.from_pretrained(DIR).save_pretrained(DIR) "
     "of transformers 5"},
    {FilesOf::tokenizer, "vocab.json", "half of an older pair with merges.txt, which is not read",
     "make tokenizer.json with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of "
     "transformers, which needs config.json of the model in DIR too"},
    {FilesOf::tokenizer, "merges.txt", "half of an older pair with vocab.json, which is not read",
     "make tokenizer.json of both with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of "
     "transformers, which needs config.json of the model in DIR too"},
    {FilesOf::tokenizer, "vocab.txt", "a WordPiece vocabulary, which is not read",
     "take a model with a byte-level BPE"},
    {FilesOf::tokenizer, "*.tiktoken", "a vocabulary of tiktoken, which is not read",
     "download tokenizer.json of the same model"},
    {FilesOf::tokenizer, "tokenizer_config.json", "but the tokenizer itself is missing",
     "download tokenizer.json too"},
};

bool fits(const OtherFile& file, const std::string& name) {
  return ::fnmatch(file.pattern, name.c_str(), 0) == 0;
}

std::string name_of(const std::string& path) {
  const fs::path plain = fs::path(path).lexically_normal();
  return (plain.has_filename() ? plain.filename() : plain.parent_path().filename()).string();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// "NAME, WHAT; REMEDY" of the first row that one of the names fits.
std::string said_of(FilesOf wanted, const std::vector<std::string>& names) {
  for (const OtherFile& file : table) {
    if (file.wanted != wanted) continue;
    const auto name = std::find_if(names.begin(), names.end(),
                                   [&](const std::string& each) { return fits(file, each); });
    if (name != names.end())
      return str(one_line(*name, most_of_a_name), ", ", file.what, "; ", file.remedy);
  }
  return "";
}

/// "ORGANISATION/NAME", which Hugging Face's programs take for a model of its hub.
bool is_like_a_model_of_the_hub(const std::string& path) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  const std::size_t slash = path.find('/');
  return slash != 0 && slash != path.npos && slash + 1 < path.size() && path[0] != '.' &&
         std::all_of(path.begin() + static_cast<std::ptrdiff_t>(slash) + 1, path.end(), plain) &&
         std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(slash), plain);
}

/// Without the address of the hub before it.
std::string in_the_hub(const std::string& path) {
  for (const std::string_view address :
       {"https://huggingface.co/", "http://huggingface.co/", "huggingface.co/", "hf://"})
    if (path.starts_with(address)) return path.substr(address.size());
  return path;
}

std::string of_missing(FilesOf wanted, const std::string& path) {
  if (wanted == FilesOf::tokens) return "";
  const std::string name = in_the_hub(path);
  if (is_like_a_model_of_the_hub(name))
    return str(
        "there is no such directory; if it is a model of the hub, download it first: hf download ",
        name, ", which prints its directory");
  return path.find("://") == path.npos
             ? "there is no such directory"
             : "this is an address, and only files of this machine are read; copy it here first";
}

/// Of a file where a directory is wanted.
std::string of_file(FilesOf wanted, const std::string& path) {
  const std::string name = name_of(path), said = said_of(wanted, {name});
  if (wanted == FilesOf::tokenizer && said.empty()) return "";
  const bool of_a_model = name == "config.json" || name == "model.safetensors" ||
                          name == "model.safetensors.index.json";
  if (of_a_model || said.empty()) {
    const std::string around = fs::path(path).parent_path().string();
    return str("this is a file; give the directory around it, ", around.empty() ? "." : around);
  }
  return "this is " + said;
}

/// The directory below with the files that are missing here: of an archive, say.
std::string below(const std::string& directory, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names)
    if (fs::is_regular_file(fs::path(directory) / name / "config.json", ignored))
      return str("the model is in ", (fs::path(directory) / name).string(),
                 "; give that directory");
  return "";
}

}  // namespace

std::string instead_of(FilesOf wanted, const std::string& path) {
  std::error_code error;
  if (wanted == FilesOf::tokens) {
    if (!fs::is_regular_file(path + ".bin", error) || fs::exists(path + ".idx", error)) return "";
    return str(path,
               ".bin has no index beside it: trireme reads the pair of Megatron-LM, and not the "
               "bare tokens of nanoGPT; make both from the text with 'trireme data prepare'");
  }
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return of_missing(wanted, path);
  if (!fs::is_directory(status)) return of_file(wanted, path);
  const std::vector<std::string> names = names_in(path);
  const std::string said = said_of(wanted, names);
  if (names.empty()) return "the directory is empty";
  if (wanted == FilesOf::model && !fs::exists(fs::path(path) / "config.json", error))
    if (std::string inside = below(path, names); !inside.empty()) return inside;
  return said.empty() ? "" : "it has " + said;
}

std::string what_is_named_so(FilesOf wanted, const std::string& path) {
  return said_of(wanted, {name_of(path)});
}

std::string what_begins_so(std::string_view begin) {
  struct Beginning {
    std::string_view bytes;
    const char* what;
  };
  constexpr const char* download =
      "which a download without permission gives; sign in to where it "
      "comes from and download it again";
  static constexpr Beginning beginnings[] = {
      {"version https://git-lfs",
       "is a pointer of Git LFS in place of the file; fetch it with git "
       "lfs pull"},
      {"version ", "is a pointer of Git LFS in place of the file; fetch it with git lfs pull"},
      {"GGUF", "is a GGUF model of llama.cpp; use the model that it was made from"},
      {"PK\x03\x04",
       "is a zip archive, as torch.save() writes; write the model with "
       "save_pretrained(DIR)"},
      {"\x80\x02", "is a pickle of Python; write the model with save_pretrained(DIR)"},
      {"\x89HDF", "is an HDF5 file; write the model with save_pretrained(DIR)"},
      {"Invalid username", "is an answer of the hub"},
      {"Access to model", "is an answer of the hub"},
      {"Entry not found", "is an answer of the hub: there is no such file"}};
  const std::size_t first = begin.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != begin.npos && begin[first] == '<') return str("is a page of HTML, ", download);
  for (const Beginning& each : beginnings)
    if (begin.starts_with(each.bytes)) return each.what;
  return "";
}

}  // namespace trireme
