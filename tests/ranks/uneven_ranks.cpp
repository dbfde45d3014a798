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
struct Conduct {
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

Value block(const Conduct& conduct, Value x) {
  const Value h = gelu_tanh(column_linear(rms_norm(x, "norm"), "up", 4 * conduct.width));
  return x + row_linear(h, "down", conduct.width);
}

Model model_of(const Conduct& conduct, Index batch) {
  Model model([conduct, batch](Graph& g) {
    Value x = g.input("x", {batch, conduct.width});
    for (int i = 0; i < conduct.blocks; ++i)
      x = g.block("block", i, [&] { return block(conduct, x); });
    if (conduct.doubled) x = x + x;
    return squared_error(x, g.input("y", {batch, conduct.width}));
  });
  model.identity = {{"kind", conduct.identity}};
  return model;
}

void barrier(Context& context) { context.host().world().barrier(); }

/// Cases by name; each changes what its rank does.
const std::map<std::string, std::function<void(Conduct&, int rank)>>& cases() {
  const auto of_rank_1 = [](auto change) {
    return [change](Conduct& conduct, int rank) {
      if (rank == 1) change(conduct);
    };
  };
  static const std::map<std::string, std::function<void(Conduct&, int)>> all{
      {"nothing", [](Conduct&, int) {}},
      {"layers", of_rank_1([](Conduct& conduct) { conduct.blocks = 2; })},
      {"width", of_rank_1([](Conduct& conduct) { conduct.width = 32; })},
      {"ops", of_rank_1([](Conduct& conduct) { conduct.doubled = true; })},
      {"identity", of_rank_1([](Conduct& conduct) { conduct.identity = "odd"; })},
      {"source", of_rank_1([](Conduct& conduct) { conduct.data = "twos"; })},
      {"validation", of_rank_1([](Conduct& conduct) { conduct.validates = true; })},
      {"return", of_rank_1([](Conduct& conduct) { conduct.trains = false; })},
      {"refusal", of_rank_1([](Conduct& conduct) {
         conduct.before = [](Context&) { throw ConfigurationError("rank 1 does not like it"); };
       })},
      {"barrier",
       [](Conduct& conduct, int rank) {
         if (rank != 1) conduct.after = barrier;
       }},
      {"allocation",
       [](Conduct& conduct, int rank) {
         conduct.trains = false;
         if (rank != 1) conduct.after = [](Context& context) { context.mesh().allocate(4096); };
       }},
      {"slow",
       [](Conduct& conduct, int rank) {
         if (rank == 0)
           conduct.after = [](Context&) { std::this_thread::sleep_for(std::chrono::seconds(3)); };
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
    Conduct conduct;
    cases().at(uneven)(conduct, context.mesh().rank());
    conduct.before(context);
    if (conduct.trains) {
      Ones train(conduct.data), validation("validation");
      Trainer trainer(context, model_of(conduct, context.options().micro_batch_size));
      trainer.fit(train, conduct.validates ? &validation : nullptr);
    }
    conduct.after(context);
  });
}
