// What counts as a definition of a type that other files can see.
#include "tests/layering/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {

static void PrintTo(const DeclaredName& type, std::ostream* out) {
  *out << type.name << " in line " << type.line;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Types, AreNamedWithWhatIsAroundThem) {
  EXPECT_THAT(
      types_of(R"(
namespace trireme {
struct Plain {
  enum class Inner : int { one };
 private:
  struct Hidden {};
};
namespace a::b { class Deep final : public Plain {}; }
struct Plain::State {
  int x{1'000};
};
}
enum Outside { two };)"),
      ElementsAre(DeclaredName{"trireme::Plain", 3}, DeclaredName{"trireme::Plain::Inner", 4},
                  DeclaredName{"trireme::Plain::Hidden", 6}, DeclaredName{"trireme::a::b::Deep", 8},
                  DeclaredName{"trireme::Plain::State", 9}, DeclaredName{"Outside", 13}));
}

TEST(Types, MayBeTemplatesWithAttributes) {
  EXPECT_THAT(types_of(R"(
template <class T, template <class> class U> struct [[nodiscard]] Box {};
template <> struct Box<int> {};
struct alignas(64) Line {};
extern "C" { struct FromC {}; })"),
              ElementsAre(DeclaredName{"Box", 2}, DeclaredName{"Box<int>", 3},
                          DeclaredName{"Line", 4}, DeclaredName{"FromC", 5}));
}

TEST(Types, ThatOtherFilesCannotSeeDoNotCount) {
  EXPECT_THAT(types_of(R"x(
class Forward;
enum class Later : int;
namespace { struct Anonymous { struct Inner {}; }; }
namespace trireme { namespace { class Second {}; } }
struct Result make(struct Argument* a) {
  struct Local {};
  if (a) { struct Deeper {}; }
}
const struct { int x; } table[] = {{1}};
#define MACRO struct Defined { \
  int x; };
// struct Comment {};
/* struct Comment {
}; */
const char* text = "struct Quoted {";
const char* raw = R"(struct Raw {)";)x"),
              IsEmpty());
}

TEST(NamesInTrireme, AreTypesFunctionsVariablesAndAliases) {
  EXPECT_THAT(
      names_in_trireme(R"(
namespace trireme {
class Type final : public Base<int> { int member = 0; };
enum class Kind : int { one };
template <class T, class = std::enable_if_t<(sizeof(T) > 1)>>
std::vector<T> function(T x = {}, int y = 1);
inline constexpr int numbers[] = {1, 2};
using Alias = std::vector<int>;
inline bool operator==(const Type&, const Type&) { return true; }
[[nodiscard]] struct Result make(Type) { int local = 0; return {}; }
extern "C" { int c_function(); }
})"),
      ElementsAre(DeclaredName{"Type", 3}, DeclaredName{"Kind", 4}, DeclaredName{"function", 6},
                  DeclaredName{"numbers", 7}, DeclaredName{"Alias", 8}, DeclaredName{"operator", 9},
                  DeclaredName{"make", 10}, DeclaredName{"c_function", 11}));
}

TEST(NamesInTrireme, AreNotThoseOfOtherNamespacesAndMembers) {
  EXPECT_THAT(names_in_trireme(R"(
struct Outside {};
namespace trireme {
class Forward;
template <class T> struct Template;
template <> struct Template<int> { int x; };
struct Plan::State { int x = 0; void run(); };
inline int Plan::count() const { return 1; }
inline bool Plan::operator==(const Plan&) const { return true; }
namespace graph { struct Step {}; int work(); }
using namespace graph;
static_assert(sizeof(int) == 4, "as on all machines");
}
namespace trireme::graph { class Image {}; })"),
              IsEmpty());
}

}  // namespace
}  // namespace trireme::layering
