// What a graph keeps of each applied op and of each value.
#pragma once

#include <string>
#include <vector>

#include "trireme/graph/op.h"

namespace trireme {

struct Node {
  int id;
  std::string name;  // logical, unique: "block.3/mlp/gelu_tanh"; the same for every layout
  OpPtr op;
  std::vector<int> inputs, outputs, sides;  // value ids
  int block;                                // index of the enclosing block in Graph::blocks, or -1
  int recompute;                            // innermost recompute scope, or -1
};

struct ValueInfo {
  enum class Kind { input, parameter, result, side };
  Kind kind;
  std::string name;
  Spec spec;
  Placement placement;
  int node;       // producer, or -1
  int parameter;  // id, or -1
  Output::Kind output = Output::Kind::fresh;
  int root = -1;    // the value whose memory this one lies in: itself, unless a view or identity
  Index first = 0;  // elements from the start of the root
  int gradient_root = -1;  // the value whose gradient holds this one's: itself, unless a view
};

}  // namespace trireme
