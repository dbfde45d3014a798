#include "runtime/interop/names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "trireme/core/error.h"

#include "runtime/interop/hf_config.h"
#include "runtime/models/kinds.h"
#include "runtime/store/safetensors/element.h"

namespace trireme::interop {
namespace {

using safetensors::Directory;
using safetensors::LocatedTensor;

constexpr const char *gpt2_prefix = "transformer.", *llama_prefix = "model.";
constexpr const char* head_name = "lm_head.weight";

bool ends_with_any(const std::string& name, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const char* end) { return name.ends_with(end); });
}

/// Tables that older versions of transformers wrote, and that are computed here.
bool is_ignored(const std::string& name) {
  return ends_with_any(name, {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"});
}

/// A linear layer or a norm. `gpt2`: null where its models have none.
struct Layer {
  const char* logical;
  const char* gpt2;
  const char* llama;
};
constexpr Layer embedding{"embedding", "wte", "model.embed_tokens"};
constexpr Layer position{"position", "wpe", nullptr};
constexpr Layer last_norm{"norm", "ln_f", "model.norm"};
constexpr Layer head{"head", "lm_head", "lm_head"};
// Of block i.
constexpr Layer attention_norm{"attention_norm", "ln_1", "input_layernorm"};
constexpr Layer query{"attention.query", "attn.c_attn", "self_attn.q_proj"};
constexpr Layer key{"attention.key", "attn.c_attn", "self_attn.k_proj"};
constexpr Layer value{"attention.value", "attn.c_attn", "self_attn.v_proj"};
constexpr Layer query_norm{"attention.query_norm", nullptr, "self_attn.q_norm"};
constexpr Layer key_norm{"attention.key_norm", nullptr, "self_attn.k_norm"};
constexpr Layer output{"attention.output", "attn.c_proj", "self_attn.o_proj"};
constexpr Layer mlp_norm{"mlp_norm", "ln_2", "post_attention_layernorm"};
constexpr Layer gate{"mlp.gate", nullptr, "mlp.gate_proj"};
constexpr Layer up{"mlp.up", "mlp.c_fc", "mlp.up_proj"};
constexpr Layer down{"mlp.down", "mlp.c_proj", "mlp.down_proj"};

/// The views of one model. GPT-2's linear layers are (in, out), and its queries, keys and values
/// one layer.
class Views {
 public:
  Views(const std::string& type, const TransformerConfig& config)
      : c_(config), gpt2_(type == "gpt2") {}

  std::vector<HfView> all() {
    table(embedding, c_.vocab_size);
    if (is_learned(c_.position)) table(position, c_.positions());
    for (Index i = 0; i < c_.num_layers; ++i) block(i);
    block_ = hf_block_ = "";
    norm(last_norm, c_.hidden_size);
    if (!c_.tie_embeddings) table(head, c_.vocab_size);
    return std::move(views_);
  }

 private:
  void block(Index i) {
    block_ = str("block.", i, '.');
    hf_block_ = gpt2_ ? str("h.", i, '.') : str("model.layers.", i, '.');
    const Index kv = c_.kv_heads() * c_.head_dim(), heads = c_.attention_width();
    norm(attention_norm, c_.hidden_size);
    attention_in(heads, kv);
    linear(output, heads, c_.hidden_size, c_.add_bias_linear || c_.add_attention_bias);
    norm(mlp_norm, c_.hidden_size);
    if (is_gated(c_.mlp)) linear(gate, c_.hidden_size, c_.ffn(), c_.add_bias_linear);
    linear(up, c_.hidden_size, c_.ffn(), c_.add_bias_linear);
    linear(down, c_.ffn(), c_.hidden_size, c_.add_bias_linear);
  }

  void attention_in(Index heads, Index kv) {
    const bool bias = c_.add_bias_linear || c_.add_qkv_bias || c_.add_attention_bias;
    const Index all = heads + 2 * kv;
    Index first = 0;
    for (const auto& [layer, out] : {std::pair{query, heads}, {key, kv}, {value, kv}}) {
      if (gpt2_)
        part(layer, c_.hidden_size, out, first, all, bias);
      else
        linear(layer, c_.hidden_size, out, bias);
      first += out;
    }
    if (!c_.qk_layernorm) return;
    for (const Layer& layer : {query_norm, key_norm}) norm(layer, c_.head_dim());
  }

  void norm(const Layer& layer, Index width) {
    add(layer, ".weight", {width}, {width});
    if (has_bias(c_.normalization)) add(layer, ".bias", {width}, {width});
  }
  void table(const Layer& layer, Index rows) {
    add(layer, ".weight", {rows, c_.hidden_size}, {rows, c_.hidden_size});
  }
  void linear(const Layer& layer, Index in, Index out, bool bias) {
    part(layer, in, out, 0, out, bias);
  }
  /// Rows [first, first + out) of a layer of `all` rows.
  void part(const Layer& layer, Index in, Index out, Index first, Index all, bool bias) {
    add(layer, ".weight", {out, in}, gpt2_ ? Shape{in, all} : Shape{all, in}, gpt2_, first);
    if (bias) add(layer, ".bias", {out}, {all}, false, first);
  }
  void add(const Layer& layer, const char* suffix, const Shape& shape, const Shape& hf_shape,
           bool transposed = false, Index first = 0) {
    const char* hf = gpt2_ ? layer.gpt2 : layer.llama;
    require(hf != nullptr, "models of the type ", gpt2_ ? "gpt2" : "llama",
            " of Hugging Face have no ", block_, layer.logical, suffix);
    const bool prefixed = gpt2_ && layer.logical != head.logical;
    views_.push_back({str(block_, layer.logical, suffix), shape,
                      str(prefixed ? gpt2_prefix : "", hf_block_, hf, suffix), hf_shape, transposed,
                      first});
  }

  const TransformerConfig& c_;
  const bool gpt2_;
  std::string block_, hf_block_;
  std::vector<HfView> views_;
};

/// The first problems of a kind, and how many more there are: files may have a million tensors.
class FirstProblems {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (++count_ <= most) first_.push_back(str(parts...));
  }
  void move_to(std::vector<std::string>& all, const char* kind) {
    std::move(first_.begin(), first_.end(), std::back_inserter(all));
    if (count_ > most) all.push_back(str("and ", count_ - most, " more tensors ", kind));
  }

 private:
  static constexpr Index most = 10;
  Index count_ = 0;
  std::vector<std::string> first_;
};

/// Of the names of the model inside of the one with a head.
std::string inner_prefix(const std::vector<HfView>& views) {
  return views.front().hf.ends_with("wte.weight") ? gpt2_prefix : llama_prefix;
}

/// The tensor that transformers takes for `name`: the one with that name, or else with the prefix
/// once more, or once less. Null: none.
const LocatedTensor* find_named(const Directory& files, const std::string& prefix,
                                const std::string& name) {
  const LocatedTensor* found = files.find(name);
  if (found == nullptr) found = files.find(prefix + name);
  if (found == nullptr && name.starts_with(prefix)) found = files.find(name.substr(prefix.size()));
  return found;
}

/// What programs put before all names of a model that they wrap.
struct Wrapper {
  const char* prefix;
  const char* program;
  const char* remedy;
};
constexpr Wrapper wrappers[] = {
    {"_orig_mod.", "torch.compile", "save it with model._orig_mod.save_pretrained(DIR)"},
    {"module.", "DistributedDataParallel", "save it with model.module.save_pretrained(DIR)"},
    {"base_model.model.", "PEFT", "save it with model.merge_and_unload().save_pretrained(DIR)"},
    {"_fsdp_wrapped_module.", "FSDP",
     "gather the whole state first (StateDictType.FULL_STATE_DICT)"},
    {"_forward_module.", "Lightning", "save the model inside of it with save_pretrained(DIR)"},
    {"model.language_model.", "a model of text and pictures",
     "save its text model alone with save_pretrained(DIR)"},
    {"language_model.", "a model of text and pictures",
     "save its text model alone with save_pretrained(DIR)"}};

/// The one line of files whose names have another prefix than the model's; "": they have not.
std::string other_prefix(const HfView& first, const Directory& files) {
  const std::string inner = first.hf.substr(first.hf.find('.') + 1);  // "embed_tokens.weight"
  for (const LocatedTensor& tensor : files.tensors) {
    if (!tensor.name.ends_with('.' + inner)) continue;
    std::string prefix = tensor.name.substr(0, tensor.name.size() - inner.size());
    const auto* const wrapper =
        std::find_if(std::begin(wrappers), std::end(wrappers),
                     [&](const Wrapper& each) { return prefix.starts_with(each.prefix); });
    if (wrapper != std::end(wrappers))
      return str("the names of its tensors begin with ", wrapper->prefix, ", which ",
                 wrapper->program, " adds; ", wrapper->remedy);
    return str("the names of its tensors begin with ", prefix, ", as in ", tensor.name,
               "; expected ", first.hf);
  }
  return files.find("tok_embeddings.weight") == nullptr
             ? ""
             : "its tensors have the names of the model's authors (tok_embeddings.weight), not "
               "those of transformers; use the files of this model that transformers reads";
}

bool is_tied(const std::vector<HfView>& views) {
  return std::none_of(views.begin(), views.end(),
                      [](const HfView& view) { return view.logical == "head.weight"; });
}

}  // namespace

std::vector<HfView> hf_views(const std::string& model_type, const TransformerConfig& config) {
  const std::vector<std::string> types = hf_model_types();
  std::string all;
  for (const std::string& type : types) all += (all.empty() ? "" : ", ") + type;
  require(std::find(types.begin(), types.end(), model_type) != types.end(), "the model type ",
          model_type, " is not one of ", all);
  return Views(model_type, config).all();
}

std::vector<std::string> fit(std::vector<HfView>& views, const Directory& files,
                             std::vector<std::string>& notes) {
  FirstProblems differing, unknown;
  std::set<std::string> named;
  Index found = 0, doubles = 0;
  const std::string prefix = inner_prefix(views);
  for (HfView& view : views) {
    const LocatedTensor* tensor = find_named(files, prefix, view.hf);
    if (tensor != nullptr) view.hf = tensor->name;
    if (!named.insert(view.hf).second) continue;  // parts of one tensor
    found += tensor != nullptr ? 1 : 0;
    if (tensor == nullptr)
      differing.add("tensor ", view.hf, ' ', view.hf_shape, " is missing");
    else if (tensor->shape != view.hf_shape)
      differing.add("tensor ", view.hf, " is ", tensor->shape, ", should be ", view.hf_shape);
    else if (const auto element = safetensors::parse_element(tensor->type); !element)
      differing.add("tensor ", view.hf, " has the type ", tensor->type, "; ",
                    safetensors::listed_elements(), " are read");
    else
      doubles += *element == safetensors::Element::f64 ? 1 : 0;
  }
  if (found == 0)
    if (std::string other = other_prefix(views.front(), files); !other.empty()) return {other};
  const LocatedTensor* tied = tied_head(views, files);
  for (const LocatedTensor& tensor : files.tensors)
    if (!named.contains(tensor.name) && !is_ignored(tensor.name) && &tensor != tied)
      unknown.add("tensor ", tensor.name, ' ', tensor.shape, " has no place in this model");
  if (doubles > 0) notes.push_back(str(doubles, " tensors of the type F64 are rounded to f32"));
  if (!files.absent.empty())
    notes.push_back(str(safetensors::index_name,
                        " names tensors that are in no file: ", files.absent.size(), ", as ",
                        files.absent.front(), "; the model does not need them"));
  std::vector<std::string> problems;
  differing.move_to(problems, "are missing, or have another shape or type");
  unknown.move_to(problems, "have no place in this model");
  return problems;
}

const LocatedTensor* tied_head(const std::vector<HfView>& views, const Directory& files) {
  return is_tied(views) ? find_named(files, inner_prefix(views), head_name) : nullptr;
}

}  // namespace trireme::interop
