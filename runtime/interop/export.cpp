#include "runtime/interop/export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "trireme/core/error.h"

#include "runtime/interop/hf_config.h"
#include "runtime/interop/hf_files.h"
#include "runtime/interop/hf_source.h"
#include "runtime/interop/model_files.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors/reader.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::interop {
namespace {

namespace fs = std::filesystem;
using safetensors::Element;
using safetensors::WrittenTensor;

const std::string parameters = HfSource::prefix;

/// "bfloat16", as a config.json has it.
std::string dtype_of(Element element) {
  switch (element) {
    case Element::f32:
      return "float32";
    case Element::bf16:
      return "bfloat16";
    case Element::f16:
      return "float16";
    case Element::f64:
      return "float64";
  }
  return "";
}

/// Reads boxes of the step's parameters.
class Parameters {
 public:
  Parameters(const OpenedStep& step, int threads) : step_(step), threads_(threads) {}

  const Manifest::Tensor& find(const std::string& logical) const {
    const Manifest::Tensor* tensor = step_.manifest.find(parameters + logical);
    require(tensor != nullptr, step_.directory, ": has no tensor ", parameters, logical);
    return *tensor;
  }
  void read(const std::string& logical, const Box& box, float* data) const {
    const Manifest::Tensor& tensor = find(logical);
    read_boxes(step_.directory, step_.manifest,
               {{tensor.name, DType::f32, tensor.global, box, data}}, threads_);
  }

 private:
  const OpenedStep& step_;
  const int threads_;
};

/// Rows [row, row + rows) of a tensor with all of the other dims.
Box rows_box(const Shape& shape, Index row, Index rows) {
  Box box{shape, shape};
  for (int d = 0; d < shape.dims(); ++d) box.begin[d] = 0;
  if (shape.dims() == 0) return box;
  box.begin[0] = row;
  box.size[0] = rows;
  return box;
}

/// The part of a tensor of Hugging Face that one view fills: rows [row, row + rows) of the file,
/// packed at `data`.
void read_view(const Parameters& from, const HfView& view, Index row, Index rows, float* data) {
  if (!view.transposed) {
    const Index begin = std::max(row, view.first_row),
                end = std::min(row + rows, view.first_row + view.shape[0]);
    const Index columns = safetensors::rows_of(view.hf_shape).columns;
    if (begin < end)
      from.read(view.logical, rows_box(view.shape, begin - view.first_row, end - begin),
                data + (begin - row) * columns);
    return;
  }
  // Rows of the file are columns here.
  const Index out = view.shape[0], columns = view.hf_shape[1];
  std::vector<float> part(static_cast<std::size_t>(out * rows));
  from.read(view.logical, {Shape{0, row}, Shape{out, rows}}, part.data());
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < out; ++j)
      data[i * columns + view.first_row + j] = part[static_cast<std::size_t>(j * rows + i)];
}

/// The tensors that the views fill. `from` is borrowed.
std::vector<WrittenTensor> written(const Parameters& from, const std::vector<HfView>& views) {
  std::map<std::string, std::vector<HfView>> by_name;
  for (const HfView& view : views) by_name[view.hf].push_back(view);
  std::vector<WrittenTensor> tensors;
  for (const auto& [name, parts] : by_name)
    tensors.push_back(
        {name, parts.front().hf_shape, [&from, parts = parts](Index row, Index rows, float* data) {
           for (const HfView& view : parts) read_view(from, view, row, rows, data);
         }});
  return tensors;
}

/// Parameters that were frozen may be in bf16.
bool is_read(const Manifest::Tensor& tensor) {
  return tensor.dtype == DType::f32 || tensor.dtype == DType::bf16;
}

/// The step has exactly the tensors of the views.
void check_tensors(const OpenedStep& step, const Parameters& from,
                   const std::vector<HfView>& views) {
  std::set<std::string> named;
  for (const HfView& view : views) {
    const Manifest::Tensor& tensor = from.find(view.logical);
    require(tensor.global == view.shape && is_read(tensor), step.directory, ": ", tensor.name,
            " is ", tensor.dtype, ' ', tensor.global, ", the options of its run say ", view.shape);
    named.insert(tensor.name);
  }
  for (const Manifest::Tensor& tensor : step.manifest.tensors)
    require(!tensor.name.starts_with(parameters) || named.contains(tensor.name), step.directory,
            ": ", tensor.name, " has no place in a model of Hugging Face");
}

/// config.json that the run has kept; nothing where it began without one.
std::optional<HfConfig> kept_config(const std::string& run) {
  const std::string path = run + '/' + kept_directory + "/config.json";
  if (!fs::exists(path)) return std::nullopt;
  for (const std::string& problem : problems_of_kept_files(run + '/' + kept_directory))
    throw Error(str(run, '/', kept_directory, ": ", problem));
  return read_hf_config(path);
}

Json config_of(const TransformerConfig& model, const std::optional<HfConfig>& kept,
               const ExportOptions& options) {
  HfOutput output;
  output.dtype = dtype_of(options.files.element);
  if (options.tokenizer) {
    output.bos = options.tokenizer->bos;
    output.eos = options.tokenizer->eos;
  }
  if (kept) {
    output.model_type = kept->model_type;
    output.max_positions = kept->max_positions;
    output.base = &kept->json;
  }
  return hf_config_of(model, output);
}

void copy(const std::string& from, const std::vector<std::string>& names, const std::string& to) {
  for (const std::string& name : names)
    write_whole(to + '/' + name, read_whole(from + '/' + name, largest_kept_file));
}

/// `tokenizer`: to be written in place of that which the run has kept.
void copy_kept(const std::string& run, const std::optional<OutputTokenizer>& tokenizer,
               const std::string& to) {
  if (tokenizer) copy(tokenizer->directory, tokenizer_files(tokenizer->directory), to);
  const std::string kept = run + '/' + kept_directory;
  if (!fs::exists(kept)) return;
  std::vector<std::string> names = files_of_kind(kept, HfFile::kept);
  if (tokenizer) std::erase_if(names, [](const auto& name) { return is_of_tokenizer(name); });
  copy(kept, names, to);
}

}  // namespace

void export_model(const OpenedStep& step, const std::string& run, const TransformerConfig& model,
                  const std::string& output, const ExportOptions& options) {
  Unfinished unfinished(output, HeldPath::Kind::directory);
  const std::optional<HfConfig> kept = kept_config(run);
  const Json config = config_of(model, kept, options);
  const std::string type = std::get<std::string>(config.find("model_type")->value);
  const std::vector<HfView> views = hf_views(type, model);
  const Parameters from(step, options.threads);
  check_tensors(step, from, views);

  write_whole(unfinished.path() + "/config.json", to_text(config) + '\n');
  copy_kept(run, options.tokenizer, unfinished.path());
  safetensors::write_model(unfinished.path(), written(from, views), options.files);
  unfinished.finish();
}

void export_parameters(const OpenedStep& step, const std::string& output,
                       const ExportOptions& options) {
  const Parameters from(step, options.threads);
  std::vector<WrittenTensor> tensors;
  for (const Manifest::Tensor& tensor : step.manifest.tensors) {
    if (!tensor.name.starts_with(parameters)) continue;
    const std::string logical = tensor.name.substr(parameters.size());
    require(is_read(tensor), step.directory, ": ", tensor.name, " is ", tensor.dtype,
            "; tensors of f32 and bf16 are exported");
    const Shape shape = tensor.global;
    const Index folded = shape.dims() < 2 ? 1 : safetensors::rows_of(shape).rows / shape[0];
    tensors.push_back(
        {logical, shape, [&from, logical, shape, folded](Index row, Index rows, float* data) {
           // Rows of rows_of(): whole rows of dim 0 as far as they go.
           const Index first = row / folded, end = (row + rows + folded - 1) / folded;
           if (folded == 1) return from.read(logical, rows_box(shape, row, rows), data);
           std::vector<float> whole(
               static_cast<std::size_t>((end - first) * folded * shape.back()));
           from.read(logical, rows_box(shape, first, end - first), whole.data());
           const auto* begin = whole.data() + (row - first * folded) * shape.back();
           std::copy(begin, begin + rows * shape.back(), data);
         }});
  }
  require(!tensors.empty(), step.directory, ": has no parameters");
  safetensors::write_file(output, tensors, options.files);
}

}  // namespace trireme::interop
