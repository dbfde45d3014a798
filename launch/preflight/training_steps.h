// Steps of a real training on one device, to compare their bits with those of other devices.
#pragma once

#include <string>

#include "trireme/comm/host.h"

namespace trireme::preflight {

/// Three steps of the model "tiny" (train_gpt --model tiny) on invented text: a hash of their
/// losses and gradient norms, which depend on every parameter and moment. `mesh`: of this rank
/// alone.
std::string bits_of_training(Mesh& mesh, Stream& stream, const Host& host);

}  // namespace trireme::preflight
