// A program that links the library and in which rank 1 does something else than the others:
// --uneven says what.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include <trireme/trireme.h>

using namespace trireme;

namespace {

/// What a rank does; rank 1 is given other values.
struct Role {
  int blocks = 3;
  Index width = 16;
  bool doubled = false;
  std::string identity = "even";
  std::string data = "ones";
  bool validates = false;
  std::function<void(Context&)> before = [](Context&) {}, after = [](Context&) {};
  bool trains = true;
};

class Ones final : public DataSource {
 public:
  explicit Ones(std::string name) : name_(std::move(name)) {}
  Index fill(Index, std::span<const Tensor> out) override {
    for (const Tensor& row : out)
      if (row.data != nullptr) std::fill_n(row.as<float>(), row.count(), 1.0f);
    return 1;
  }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return {{"kind", name_}};
  }
  std::string file_of(const std::string& fact) const override {
    return fact == "kind" ? name_ + ".txt" : "";
  }

 private:
  std::string name_;
};

Value block(const Role& role, Value x) {
  const Value h = gelu_tanh(column_linear(rms_norm(x, "norm"), "up", 4 * role.width));
  return x + row_linear(h, "down", role.width);
}

Model model_of(const Role& role, Index batch) {
  Model model([role, batch](Graph& g) {
    Value x = g.input("x", {batch, role.width});
    for (int i = 0; i < role.blocks; ++i) x = g.block("block", i, [&] { return block(role, x); });
    if (role.doubled) x = x + x;
    return squared_error(x, g.input("y", {batch, role.width}));
  });
  model.identity = {{"kind", role.identity}};
  return model;
}

void barrier(Context& context) { context.host().world().barrier(); }

/// Cases by name; each changes what its rank does.
const std::map<std::string, std::function<void(Role&, int rank)>>& cases() {
  const auto of_rank_1 = [](auto change) {
    return [change](Role& role, int rank) {
      if (rank == 1) change(role);
    };
  };
  static const std::map<std::string, std::function<void(Role&, int)>> all{
      {"nothing", [](Role&, int) {}},
      {"layers", of_rank_1([](Role& role) { role.blocks = 2; })},
      {"width", of_rank_1([](Role& role) { role.width = 32; })},
      {"ops", of_rank_1([](Role& role) { role.doubled = true; })},
      {"identity", of_rank_1([](Role& role) { role.identity = "odd"; })},
      {"source", of_rank_1([](Role& role) { role.data = "twos"; })},
      {"validation", of_rank_1([](Role& role) { role.validates = true; })},
      {"return", of_rank_1([](Role& role) { role.trains = false; })},
      {"refusal", of_rank_1([](Role& role) {
         role.before = [](Context&) { throw ConfigurationError("rank 1 does not like it"); };
       })},
      {"barrier",
       [](Role& role, int rank) {
         if (rank != 1) role.after = barrier;
       }},
      {"allocation",
       [](Role& role, int rank) {
         role.trains = false;
         if (rank != 1) role.after = [](Context& context) { context.mesh().allocate(4096); };
       }},
      {"slow",
       [](Role& role, int rank) {
         if (rank == 0)
           role.after = [](Context&) { std::this_thread::sleep_for(std::chrono::seconds(3)); };
       }},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::string uneven = "nothing";
  Application application;
  application.name = "uneven_ranks";
  application.declare = [&](CommandLine& command, Options&) {
    command.text("--uneven", uneven, "CASE", "what rank 1 does");
  };
  return run(argc, argv, application, [&](Context& context) {
    Role role;
    cases().at(uneven)(role, context.mesh().rank());
    role.before(context);
    if (role.trains) {
      Ones train(role.data), validation("validation");
      Trainer trainer(context, model_of(role, context.options().micro_batch_size));
      trainer.fit(train, role.validates ? &validation : nullptr);
    }
    role.after(context);
  });
}
