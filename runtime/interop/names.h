// The names of Hugging Face: which tensor of a model's files holds a logical tensor, for reading
// and writing alike.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/shape.h"
#include "trireme/models/transformer_config.h"

#include "runtime/store/safetensors/directory.h"

namespace trireme::interop {

/// A logical tensor, and the rows [first_row, first_row + shape[0]) of the tensor `hf`, or of its
/// transpose, that hold it.
struct HfView {
  std::string logical;  // "block.0.attention.query.weight"
  Shape shape;          // shape of the logical tensor
  std::string hf;       // "transformer.h.0.attn.c_attn.weight"
  Shape hf_shape;       // as it lies in the file
  bool transposed = false;
  Index first_row = 0;
};

/// One view of each logical tensor of the model, in the order of the model. Throws: Error that
/// lists the types when `model_type` is none of them, and when it cannot have this config.
std::vector<HfView> hf_views(const std::string& model_type, const TransformerConfig& config);

/// Returns everything in which the files differ from the views, a line each: tensors that are
/// missing or have another shape or type, and tensors that no view names; of either kind the first
/// ten, and the number of the others; or one line where all names have another prefix. As in
/// transformers, names may have the prefix of the family's inner model ("model.", "transformer.")
/// once more or once less: `views` then get the names of the files. A head that is in the files of
/// a model with tied embeddings is no difference; see tied_head(). `notes`: adds a sentence for
/// what fits and is worth knowing.
std::vector<std::string> fit(std::vector<HfView>& views, const safetensors::Directory& files,
                             std::vector<std::string>& notes);

/// The output layer that files of a model with tied embeddings hold although they need not; null:
/// none. It must be the embedding, bit for bit.
const safetensors::LocatedTensor* tied_head(const std::vector<HfView>& views,
                                            const safetensors::Directory& files);

}  // namespace trireme::interop
