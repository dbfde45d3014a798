// Factors between the units that people read and those of the planner.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme::cost {

constexpr double micro = 1e-6, giga = 1e9, tera = 1e12, percent = 100;

}  // namespace trireme::cost
