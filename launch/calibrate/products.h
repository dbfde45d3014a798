// Rates of products: of usual shapes, and of those of a model.
#pragma once

#include <vector>

#include "trireme/models/transformer_config.h"

#include "launch/calibrate/timer.h"
#include "runtime/cost/profile.h"

namespace trireme::calibrate {

using Products = std::vector<cost::MeasuredProduct>;

/// Returns products of layers 256 to 8192 wide with 64 to 8192 rows: forward (NT), and the
/// gradients of inputs (NN) and of weights (TN). Without rates.
Products usual_products(DType dtype);
/// Returns all products of a transformer on up to so many tensor ranks, with micro-batches of 1, 2
/// and 4 samples; those that take most time come first. Without rates.
Products products_of_model(const TransformerConfig& model, DType dtype, const DeviceTraits& device,
                           int most_tensor_ranks);

/// Collective. Their rates, within about `budget_s`, of one at least: the better of two, the second
/// when all have one and as far as the time reaches. Those that would take too long each, or too
/// much memory, are left out.
Products measure_products(const Context& context, Timer& timer, const Products& products,
                          double budget_s);

/// Runs a product, with other matrices in `memory` from call to call, so that caches hold no more
/// of them than in training. Empty: the memory is too small. `memory` must outlive it.
std::function<void(Index call)> product_call(Stream& stream, const cost::MeasuredProduct& product,
                                             const Buffer& memory);

/// Sets peaks, efficiency and half_k by what was measured.
void fit_product_model(cost::Profile& profile);

}  // namespace trireme::calibrate
