// What counts as a definition of a type that other files can see.
#include "tests/layering/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {

static void PrintTo(const DefinedType& type, std::ostream* out) {
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
      ElementsAre(DefinedType{"trireme::Plain", 3}, DefinedType{"trireme::Plain::Inner", 4},
                  DefinedType{"trireme::Plain::Hidden", 6}, DefinedType{"trireme::a::b::Deep", 8},
                  DefinedType{"trireme::Plain::State", 9}, DefinedType{"Outside", 13}));
}

TEST(Types, MayBeTemplatesWithAttributes) {
  EXPECT_THAT(types_of(R"(
template <class T, template <class> class U> struct [[nodiscard]] Box {};
template <> struct Box<int> {};
struct alignas(64) Line {};
extern "C" { struct FromC {}; })"),
              ElementsAre(DefinedType{"Box", 2}, DefinedType{"Box<int>", 3}, DefinedType{"Line", 4},
                          DefinedType{"FromC", 5}));
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

}  // namespace
}  // namespace trireme::layering
