#include "runtime/interop/names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "trireme/core/error.h"

#include "runtime/interop/hf_config.h"
#include "runtime/store/safetensors/element.h"

namespace trireme::interop {
namespace {

using safetensors::Directory;
using safetensors::LocatedTensor;

constexpr const char* gpt2_prefix = "transformer.";
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
    if (c_.position == PositionKind::learned) table(position, c_.positions());
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
    linear(output, heads, c_.hidden_size, c_.add_bias_linear);
    norm(mlp_norm, c_.hidden_size);
    if (c_.mlp == MlpKind::swiglu) linear(gate, c_.hidden_size, c_.ffn(), c_.add_bias_linear);
    linear(up, c_.hidden_size, c_.ffn(), c_.add_bias_linear);
    linear(down, c_.ffn(), c_.hidden_size, c_.add_bias_linear);
  }

  void attention_in(Index heads, Index kv) {
    const bool bias = c_.add_bias_linear || c_.add_qkv_bias;
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
    if (c_.normalization == Normalization::layer_norm) add(layer, ".bias", {width}, {width});
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

bool has_prefix(const Directory& files) {
  return std::any_of(files.tensors.begin(), files.tensors.end(),
                     [](const LocatedTensor& t) { return t.name.starts_with(gpt2_prefix); });
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

std::vector<std::string> fit(std::vector<HfView>& views, const Directory& files) {
  const std::string prefix = gpt2_prefix;
  if (!has_prefix(files))
    for (HfView& view : views)
      if (view.hf.starts_with(prefix)) view.hf.erase(0, prefix.size());
  FirstProblems differing, unknown;
  std::set<std::string> named;
  for (const HfView& view : views) {
    if (!named.insert(view.hf).second) continue;  // parts of one tensor
    const LocatedTensor* tensor = files.find(view.hf);
    if (tensor == nullptr)
      differing.add("tensor ", view.hf, ' ', view.hf_shape, " is missing");
    else if (tensor->shape != view.hf_shape)
      differing.add("tensor ", view.hf, " is ", tensor->shape, ", should be ", view.hf_shape);
    else if (!safetensors::parse_element(tensor->type))
      differing.add("tensor ", view.hf, " has the type ", tensor->type,
                    "; F32, BF16 and F16 are read");
  }
  const bool tied = is_tied(views);
  for (const LocatedTensor& tensor : files.tensors)
    if (!named.contains(tensor.name) && !is_ignored(tensor.name) &&
        !(tied && tensor.name == head_name))
      unknown.add("tensor ", tensor.name, ' ', tensor.shape, " has no place in this model");
  std::vector<std::string> problems;
  differing.move_to(problems, "are missing, or have another shape or type");
  unknown.move_to(problems, "have no place in this model");
  return problems;
}

const LocatedTensor* tied_head(const std::vector<HfView>& views, const Directory& files) {
  return is_tied(views) ? files.find(head_name) : nullptr;
}

}  // namespace trireme::interop
