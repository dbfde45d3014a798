// The memory that train_gpt takes for a model of Hugging Face: the parameters and some pieces of
// files, and none for what is refused.
#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/store/safetensors/directory.h"
#include "tests/interop/toy_model.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

constexpr Index mebibyte = Index{1} << 20;

std::string config_with(Index vocabulary) {
  return fmt::format(
      R"({{"model_type":"llama","vocab_size":{},"hidden_size":512,"num_hidden_layers":2,)"
      R"("num_attention_heads":8,"intermediate_size":2048,"max_position_embeddings":64,)"
      R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":true}})",
      vocabulary);
}

struct Used {
  Outcome outcome;
  Index peak_bytes;  // of memory at a time
};

/// train_gpt on one rank, which reads the model into the host's memory and makes no step.
Used load(const std::string& directory) {
  const ScratchDirectory folder;
  const std::string line = "timeout 120 " TRIREME_BIN_DIR "/train_gpt --device cpu --seq-length 8" +
                           (" --train-iters 0 --load-hf " + directory) + " > " + (folder / "log") +
                           " 2>&1";
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  rusage used{};
  int status = -1;
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  return {{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), folder.read("log")},
          Index{used.ru_maxrss} << 10};
}

// The second model is 64 MiB larger in its file, and that in one tensor.
TEST(HfMemory, OfLoadingIsThatOfTheParametersAndPieces) {
  Index parameters[2], peaks[2];
  for (const int i : {0, 1}) {
    const ScratchDirectory from;
    parameters[i] = write_hollow_model(from, config_with(i == 0 ? 256 : 65536));
    const Used used = load(from.path());
    ASSERT_EQ(used.outcome.exit_code, 0) << used.outcome.output;
    EXPECT_THAT(used.outcome.output, HasSubstr("loaded llama from "));
    peaks[i] = used.peak_bytes;
  }
  const Index more = 4 * (parameters[1] - parameters[0]);
  ASSERT_GT(more, 120 * mebibyte);
  EXPECT_GT(peaks[1] - peaks[0], more / 2);  // it is loaded
  EXPECT_LT(peaks[1] - peaks[0], more + 32 * mebibyte);
}

struct BrokenModel {
  const char* says;
  std::function<void(const ScratchDirectory&)> break_it;
};

const std::string weights = safetensors::single_file_name;

void resize(const ScratchDirectory& folder, std::uintmax_t bytes) {
  std::filesystem::resize_file(folder / weights, bytes);
}
std::uintmax_t size(const ScratchDirectory& folder) {
  return std::filesystem::file_size(folder / weights);
}
/// What follows the header has the length that its last tensor says.
template <class Change>
void change_header(const ScratchDirectory& folder, Change&& change) {
  safetensors::Header header = safetensors::read_header(folder / weights).header;
  change(header.tensors);
  const std::string text = safetensors::header_text(header);
  folder.write(weights, text);
  resize(folder, text.size() + static_cast<std::uintmax_t>(header.tensors.back().end));
}
void replace_in_config(const ScratchDirectory& folder, const std::string& from,
                       const std::string& to) {
  std::string text = folder.read("config.json");
  folder.write("config.json", text.replace(text.find(from), from.size(), to));
}

/// The model in two files, and an index of its tensors. `file_of`(tensor): that of the index.
template <class FileOf>
void cut_in_two(const ScratchDirectory& folder, FileOf&& file_of) {
  const safetensors::FileHeader whole = safetensors::read_header(folder / weights);
  Json::Object map;
  for (const int part : {0, 1}) {
    safetensors::Header header;
    Index end = 0;
    for (const safetensors::StoredTensor& tensor : whole.header.tensors) {
      if ((tensor.name < "model.layers.1") != (part == 0)) continue;
      const Index bytes = tensor.end - tensor.begin;
      header.tensors.push_back({tensor.name, tensor.type, tensor.shape, end, end + bytes});
      end += bytes;
      if (const std::string file = file_of(tensor.name, part == 0 ? "a" : "b"); !file.empty())
        map.emplace_back(tensor.name, file);
    }
    const std::string text = safetensors::header_text(header);
    std::filesystem::resize_file(folder.write(part == 0 ? "a" : "b", text),
                                 text.size() + static_cast<std::uintmax_t>(end));
  }
  std::filesystem::remove(folder / weights);
  folder.write(safetensors::index_name,
               to_text(Json(Json::Object{{"weight_map", Json(std::move(map))}})));
}
const auto as_it_is = [](const std::string&, const std::string& file) { return file; };

const std::vector<BrokenModel> broken_models = {
    {"it is cut off", [](auto& f) { resize(f, size(f) - 1); }},
    {"bytes of no tensor follow", [](auto& f) { resize(f, size(f) + 1); }},
    {"has 100 bytes, but its header alone", [](auto& f) { resize(f, 100); }},
    {"has 0 bytes; a safetensors file begins with 8", [](auto& f) { resize(f, 0); }},
    {"this is no safetensors file", [](auto& f) { f.write(weights, std::string(64, '\x7f')); }},
    {"is a pointer of Git LFS", [](auto& f) { f.write(weights, "version https://git-lfs"); }},
    {"has neither model.safetensors nor", [](auto& f) { std::filesystem::remove(f / weights); }},
    {"inside of the tensor before it",
     [](auto& f) {
       change_header(f, [](auto& tensors) { tensors[1].begin -= 2, tensors[1].end -= 2; });
     }},
    {"but the tensor before it ends at",
     [](auto& f) {
       change_header(f, [](auto& tensors) { tensors[1].begin += 2, tensors[1].end += 2; });
     }},
    {"has the type I16",
     [](auto& f) { change_header(f, [](auto& tensors) { tensors[1].type = "I16"; }); }},
    {"do not hold the",
     [](auto& f) { change_header(f, [](auto& tensors) { tensors[1].type = "F64"; }); }},
    {"two members are called",
     [](auto& f) { change_header(f, [](auto& tensors) { tensors[1].name = tensors[2].name; }); }},
    {"is missing", [](auto& f) { change_header(f, [](auto& tensors) { tensors.pop_back(); }); }},
    {"tensor extra (4) has no place in this model",
     [](auto& f) {
       change_header(f, [](auto& tensors) {
         const Index end = tensors.back().end;
         tensors.push_back({"extra", "BF16", {4}, end, end + 8});
       });
     }},
    {"(2, 256)",
     [](auto& f) {
       change_header(f, [](auto& tensors) {
         std::find_if(tensors.begin(), tensors.end(), [](auto& tensor) {
           return tensor.shape == Shape({512});
         })->shape = {2, 256};
       });
     }},
    {"config.json: ", [](auto& f) { f.write("config.json", "{"); }},
    {"has no config.json", [](auto& f) { std::filesystem::remove(f / "config.json"); }},
    {"model_type is \"bloom\"", [](auto& f) { replace_in_config(f, "llama", "bloom"); }},
    {"model_type is \"a\\nb", [](auto& f) { replace_in_config(f, "llama", "a\\nb"); }},
    {"hidden_size is \"512\"; expected", [](auto& f) { replace_in_config(f, "512", "\"512\""); }},
    {"quantization_config is {\"bits\":4}",
     [](auto& f) { replace_in_config(f, "{", "{\"quantization_config\":{\"bits\":4},"); }},
    {"auto_map is {\"AutoModel\":\"x.X\"}",
     [](auto& f) { replace_in_config(f, "{", "{\"auto_map\":{\"AutoModel\":\"x.X\"},"); }},
    {"--seq-length 8 is too long: max_position_embeddings",
     [](auto& f) { replace_in_config(f, ":64", ":7"); }},
    {"config.json: cannot be read: it is missing, or no file",
     [](auto& f) {
       std::filesystem::remove(f / "config.json");
       EXPECT_EQ(::mkfifo((f / "config.json").c_str(), 0600), 0);
     }},
    {"LICENSE is a link to nowhere",
     [](auto& f) { std::filesystem::create_symlink("nowhere", f / "LICENSE"); }},
    {"names files that are missing: b",
     [](auto& f) {
       cut_in_two(f, as_it_is);
       std::filesystem::remove(f / "b");
     }},
    {"b: has 5 bytes; a safetensors file begins with 8",
     [](auto& f) {
       cut_in_two(f, as_it_is);
       std::filesystem::resize_file(f / "b", 5);
     }},
    {"is said to be in a but is in b",
     [](auto& f) {
       cut_in_two(f, [](const std::string& name, const std::string& file) {
         return name == "model.norm.weight" ? "a" : file;
       });
     }},
    {"which model.safetensors.index.json does not name",
     [](auto& f) {
       cut_in_two(f, [](const std::string& name, const std::string& file) {
         return name == "model.norm.weight" ? "" : file;
       });
     }},
    {"is \"../b\", which is no name of a file in this directory",
     [](auto& f) {
       cut_in_two(f, [](const std::string& name, const std::string& file) {
         return name == "model.norm.weight" ? "../b" : file;
       });
     }},
    {"is in two files",
     [](auto& f) {
       cut_in_two(f, as_it_is);
       std::filesystem::copy_file(f / "a", f / "c");
       std::string index = f.read(safetensors::index_name);
       f.write(safetensors::index_name, index.replace(index.rfind("\"a\""), 3, "\"c\""));
     }},
    {"model.safetensors.index.json: has no weight_map",
     [](auto& f) {
       cut_in_two(f, as_it_is);
       f.write(safetensors::index_name, "{}");
     }},
};

// Libraries take what they take: the rest is for the model.
TEST(HfMemory, IsNotTakenForWhatIsRefused) {
  const Used without_model = load("no-such-directory");
  ASSERT_EQ(without_model.outcome.exit_code, 64) << without_model.outcome.output;
  for (const BrokenModel& broken : broken_models) {
    const ScratchDirectory from;
    const Index parameters = write_hollow_model(from, config_with(65536));
    broken.break_it(from);
    const Used used = load(from.path());
    EXPECT_EQ(used.outcome.exit_code, 64) << broken.says << '\n' << used.outcome.output;
    EXPECT_THAT(used.outcome.output, HasSubstr(broken.says));
    EXPECT_EQ(count(used.outcome.output, "--load-hf"), 1) << used.outcome.output;
    EXPECT_LT(used.peak_bytes - without_model.peak_bytes, 4 * parameters / 2) << broken.says;
  }
}

}  // namespace
}  // namespace trireme::test
