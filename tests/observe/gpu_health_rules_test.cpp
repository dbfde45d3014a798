// The table of rules: it is that of docs/gpu/health.md, and each sign has the weight it should.
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/observe/gpu_health/health_monitor.h"
#include "runtime/observe/gpu_health/health_rules.h"

namespace trireme::observe {
namespace {

HealthAction of(HealthSign sign, std::uint64_t code = 0, int times = 1) {
  return health_rule(sign, code, times).action;
}

TEST(GpuHealthRules, ASignWithoutItsOwnRuleHasThatOfItsKind) {
  EXPECT_EQ(of(HealthSign::xid, 79), HealthAction::fatal);
  EXPECT_EQ(of(HealthSign::xid, 63), HealthAction::leave);
  EXPECT_EQ(of(HealthSign::xid, 13), HealthAction::program);
  EXPECT_EQ(of(HealthSign::xid, 9999), HealthAction::report);
  EXPECT_EQ(of(HealthSign::recovery_action, 4), HealthAction::leave);
  EXPECT_EQ(of(HealthSign::recovery_action, 99), HealthAction::fatal);
}

TEST(GpuHealthRules, AnNvlinkErrorIsFatalOnceItIsRepeated) {
  EXPECT_EQ(of(HealthSign::xid, 74, 1), HealthAction::report);
  EXPECT_EQ(of(HealthSign::xid, 74, 2), HealthAction::fatal);
  EXPECT_EQ(of(HealthSign::xid, 74, 3), HealthAction::fatal);
}

TEST(GpuHealthRules, EverySignHasARule) {
  for (int sign = 0; sign < health_sign_count; ++sign)
    EXPECT_NO_THROW(of(static_cast<HealthSign>(sign))) << sign;
}

/// The action of a line that says it, as other nodes read it.
std::optional<HealthAction> action_of(const std::string& name) {
  const auto reports =
      parse_health_reports(R"({"host":"n1","rank":3,"action":")" + name + R"(","text":"because"})");
  return reports.empty() ? std::nullopt : std::optional(reports[0].action);
}

TEST(GpuHealthRules, ActionsAreReadByTheirNames) {
  for (int action = 0; action < health_action_count; ++action)
    EXPECT_EQ(action_of(name(static_cast<HealthAction>(action))),
              static_cast<HealthAction>(action));
  EXPECT_FALSE(action_of("other"));
}

TEST(GpuHealthRules, AreTheTableOfThePage) {
  std::ifstream file(TRIREME_SOURCE_DIR "/docs/gpu/health.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::size_t rows = 0;
  for (const HealthRule& rule : health_rules()) {
    const std::string code = rule.code == HealthRule::any_code ? " (any other)"
                             : rule.code == 0                  ? ""
                                                               : str(' ', rule.code);
    const std::string row =
        str("| ", name(rule.sign), code, rule.times > 1 ? str(", ", rule.times, " times") : "",
            " | ", name(rule.action), " | ", rule.meaning, " |\n");
    EXPECT_NE(page.find(row), std::string::npos) << "missing in docs/gpu/health.md: " << row;
    ++rows;
  }
  for (const char* action : {" | report | ", " | program | ", " | leave | ", " | fatal | "})
    for (std::size_t at = page.find(action); at != std::string::npos;
         at = page.find(action, at + 1))
      --rows;
  EXPECT_EQ(rows, 0U) << "docs/gpu/health.md has rows that are no rules";
}

}  // namespace
}  // namespace trireme::observe
