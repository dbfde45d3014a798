#include "runtime/observe/gpu_health/health_rules.h"

#include <array>

#include "trireme/core/error.h"

namespace trireme::observe {
namespace {

constexpr std::array<const char*, health_sign_count> sign_names = {
    "Xid",          "recovery action", "GPU lost",      "uncorrected ECC",  "corrected ECC rate",
    "remap failed", "remap pending",   "NVLink errors", "thermal slowdown", "power brake",
    "temperature"};
constexpr std::array<const char*, health_action_count> action_names = {"report", "program", "leave",
                                                                       "fatal"};

using enum HealthSign;
using enum HealthAction;
constexpr std::uint64_t any = HealthRule::any_code;

// Sources: [X] NVIDIA, Xid Errors, catalog for Ampere and newer (immediate action in brackets);
// [R] NVIDIA, GPU memory error management, recovery action flag; [N] NVIDIA Resiliency Extension,
// health_check.py. Other pages contradict [X] on 63 and 94; the driver's own recovery action is
// asked first, so a wrong row here matters with old drivers only.
constexpr HealthRule rules[] = {
    // [R]: 4 says that the GPU works at reduced capacity, and that running work is safe. [N] ends
    // the job for each but 0.
    {recovery_action, 1, 1, fatal, "the driver asks for a reset of the GPU"},
    {recovery_action, 2, 1, fatal, "the driver asks for a reboot of the node"},
    {recovery_action, 3, 1, fatal, "the driver asks to end traffic between GPUs"},
    {recovery_action, 4, 1, leave, "the driver asks for a reset once running work has ended"},
    {recovery_action, any, 1, fatal, "the driver asks for another recovery"},
    {gpu_lost, 0, 1, fatal, "the driver no longer reaches the GPU"},
    {remap_failed, 0, 1, fatal, "a bad row of memory could not be remapped"},
    {remap_pending, 0, 1, leave, "a bad row of memory is remapped at the next reset"},
    // An error that is contained comes as Xid 94, one that is not as 48 or 95.
    {uncorrected_ecc, 0, 1, leave, "an error of memory was not corrected"},
    {corrected_ecc_rate, 0, 1, leave, "errors of memory are corrected more than 10 times as often"},

    {xid, 48, 1, fatal, "double-bit error of memory"},                 // [X] drain
    {xid, 64, 1, fatal, "a bad row of memory could not be remapped"},  // [X] RESET_GPU
    {xid, 74, 1, report, "an NVLink error"},                           // [X]: one may be transient
    {xid, 74, 2, fatal, "NVLink errors, repeated"},
    {xid, 79, 1, fatal, "the GPU has fallen off the bus"},            // [X] RESTART_BM
    {xid, 95, 1, fatal, "error of memory, not contained"},            // [X] RESET_GPU
    {xid, 119, 1, fatal, "the GPU's own processor does not answer"},  // [X] RESET_GPU
    {xid, 120, 1, fatal, "error of the GPU's own processor"},         // [X] RESET_GPU
    {xid, 140, 1, fatal, "error of memory, not corrected"},           // [X] RESET_GPU
    {xid, 63, 1, leave, "a bad row of memory is remapped at the next reset"},
    // [X] RESTART_APP; a reset when convenient.
    {xid, 94, 1, leave, "error of memory, contained to one program"},
    // [X] RESTART_APP for all four.
    {xid, 13, 1, program, "illegal address or instruction in a kernel"},
    {xid, 31, 1, program, "page fault of a kernel"},
    {xid, 43, 1, program, "a kernel was stopped after an error of the program"},
    {xid, 45, 1, program, "clean-up after an error of the program"},
    {xid, any, 1, report, "not in the table of rules"},

    {nvlink_errors, 0, 1, report, "errors of NVLink were corrected by sending again"},
    {thermal_slowdown, 0, 1, report, "clocks were lowered by heat for more than 10 % of a minute"},
    {power_brake, 0, 1, report,
     "clocks were lowered by the power supply for more than 10 % of a "
     "minute"},
    {temperature, 0, 1, report, "3 degrees below the slowdown temperature, or hotter"},
};

}  // namespace

const char* name(HealthSign sign) { return sign_names[static_cast<std::size_t>(sign)]; }
const char* name(HealthAction action) { return action_names[static_cast<std::size_t>(action)]; }

std::span<const HealthRule> health_rules() { return rules; }

const HealthRule& health_rule(HealthSign sign, std::uint64_t code, int times) {
  const HealthRule* best = nullptr;
  for (const HealthRule& rule : rules) {
    if (rule.sign != sign || rule.times > times) continue;
    if (rule.code != code && (rule.code != any || best != nullptr)) continue;
    if (best == nullptr || rule.times >= best->times) best = &rule;
  }
  require(best != nullptr, "no rule for ", text_of(sign, code));
  return *best;
}

std::string text_of(HealthSign sign, std::uint64_t code) {
  return sign == xid || sign == recovery_action ? str(name(sign), ' ', code) : name(sign);
}

}  // namespace trireme::observe
