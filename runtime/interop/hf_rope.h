// Rotary positions in a config.json, of both generations.
#pragma once

#include "trireme/models/transformer_config.h"

#include "runtime/core/json/json_record.h"
#include "runtime/interop/hf_config.h"

namespace trireme::interop {

/// Returns a number of a config.json that fits fp32; `absent` where there is none.
double real(JsonReader& keys, const char* key, double absent);
/// Returns a number that must be there, and fits fp32.
double real(JsonReader& keys, const char* key);

/// Sets the base and the scaling of `config.model`; `config.max_positions` is known already.
void read_rope(JsonReader& keys, HfConfig& config);

/// The members that both generations read: rope_theta, rope_scaling, rope_parameters.
Json::Object rope_members(const TransformerConfig& model);

/// The number that reads as this float and is shortest: 1e-06, not 9.999999974752427e-07.
double shortest(float value);

}  // namespace trireme::interop
