// A program of a library user who makes one mistake, the one that --mistake names;
// hostile_library_test.cpp and supervisor_hangs_test.cpp run it.
#include <map>
#include <stdexcept>

#include <trireme/trireme.h>

using namespace trireme;

namespace {

constexpr Index width = 8;

/// Twice its input; `forward` may do something else.
class Double final : public Op {
 public:
  using Forward = void (*)(Exec&);
  explicit Double(Forward also) : forward_(also) {}
  std::string name() const override { return "double"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.output(0).as<float>()[i] = 2 * e.input(0).as<float>()[i];
    if (forward_ != nullptr) forward_(e);
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.grad_input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] = 2 * e.grad_output(0).as<float>()[i];
  }

 private:
  Forward forward_;
};

class Ones final : public DataSource {
 public:
  using Returns = Index (*)();
  explicit Ones(Returns then) : returns_(then) {}
  Index fill(Index, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr) std::fill_n(tensor.as<float>(), width, 1.0f);
    return returns_ == nullptr ? width : returns_();
  }

 private:
  Returns returns_;
};

/// In the last rank of a tensor group, when some steps are done.
bool is_time_to_hang(Exec& e) {
  constexpr int calls = 20;
  static int call = 0;
  return ++call > calls && e.group(Role::tensor).rank() == e.group(Role::tensor).size() - 1;
}

struct Mistake {
  Double::Forward forward = nullptr;
  Ones::Returns returns = nullptr;
  void (*body)(Context&) = nullptr;
};

const std::map<std::string, Mistake>& mistakes() {
  static const std::map<std::string, Mistake> all = {
      {"none", {}},
      {"op-throws", {.forward = [](Exec&) { throw std::runtime_error("no more"); }}},
      {"op-throws-a-number", {.forward = [](Exec&) { throw 42; }}},
      {"op-writes-too-far",
       {.forward = [](Exec& e) { e.output(0).as<float>()[e.output(0).count()] = 1; }}},
      {"op-loops",
       {.forward =
            [](Exec& e) {
              if (!is_time_to_hang(e)) return;
              for (volatile bool loops = true; loops;) continue;
            }}},
      {"skips-a-collective",
       {.forward =
            [](Exec& e) {
              if (!is_time_to_hang(e)) e.group(Role::tensor).barrier();
            }}},
      {"data-throws-configuration",
       {.returns = []() -> Index { throw ConfigurationError("no more data"); }}},
      {"data-throws-a-number", {.returns = []() -> Index { throw 42; }}},
      {"targets", {.returns = [] { return Index{-5}; }}},
      {"body-throws-a-number",
       {.body =
            [](Context& context) {
              if (context.mesh().rank() == context.mesh().shape().size() - 1) throw 42;
              context.mesh().world().barrier();
            }}},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "none";
  Application application;
  application.name = "mistakes";
  application.declare = [&](CommandLine& command, Options&) {
    command.text("--mistake", name, "NAME", "which one");
  };
  return run(argc, argv, application, [&](Context& context) {
    const Mistake& mistake = mistakes().at(name);
    if (mistake.body != nullptr) mistake.body(context);
    Trainer trainer(context, Model([&](Graph& g) {
                      const Value x = g.input("x", {context.options().micro_batch_size, width});
                      return squared_error(linear(x, "up", width).apply<Double>(mistake.forward),
                                           g.input("y", x.shape()));
                    }));
    trainer.fit(Ones(mistake.returns));
  });
}
