#include "tests/support/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/finite_or_huge.h"

namespace trireme::test {
namespace {

double relative(double a, double b) {
  return finite_or_huge(std::abs(a - b) / std::max(std::abs(a), 1e-300));
}

template <class F>
void for_each_tensor(const LogicalTensors& a, const LogicalTensors& b, F f) {
  require(a.tensors.size() == b.tensors.size(), "one run has ", a.tensors.size(),
          " tensors, the other ", b.tensors.size());
  for (const auto& [name, x] : a.tensors) {
    const auto found = b.tensors.find(name);
    require(found != b.tensors.end() && found->second.size() == x.size(), "tensor ", name,
            " is missing in one run, or has another size");
    f(name, x, found->second);
  }
}

bool is_key_bias(const std::string& name) { return name.ends_with("attention.key.bias"); }

}  // namespace

// PREFIX.index: name, dims separated by x ("-" for a scalar), offset in bytes; PREFIX.f32: the
// tensors.
LogicalTensors read_logical_tensors(const std::string& prefix) {
  std::ifstream index(prefix + ".index"), data(prefix + ".f32", std::ios::binary);
  require(index.good() && data.good(), prefix, ".index or .f32 cannot be read");
  LogicalTensors all;
  std::string name, dims;
  for (Index offset = 0; index >> name >> dims >> offset;) {
    Index count = 1;
    std::istringstream in(dims);
    for (std::string extent; dims != "-" && std::getline(in, extent, 'x');)
      count *= std::stoll(extent);
    std::vector<float>& tensor = all.tensors[name];
    tensor.resize(static_cast<std::size_t>(count));
    data.seekg(offset);
    data.read(reinterpret_cast<char*>(tensor.data()),
              static_cast<std::streamsize>(tensor.size() * sizeof(float)));
    require(data.good(), prefix, ".f32 ends inside ", name);
  }
  return all;
}

std::vector<StepLine> read_steps(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), path, " cannot be read");
  std::vector<StepLine> steps;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (row.contains("loss")) steps.push_back({row.at("loss"), row.at("grad_norm")});
  }
  return steps;
}

TrainingRun read_training_run(const std::string& prefix) {
  return {read_steps(prefix + ".jsonl"), read_logical_tensors(prefix + ".gradients"),
          read_logical_tensors(prefix + ".parameters")};
}

Difference compare(const TrainingRun& reference, const TrainingRun& other) {
  require(!reference.steps.empty() && reference.steps.size() == other.steps.size(), "one run has ",
          reference.steps.size(), " steps, the other ", other.steps.size());
  Difference most;
  for (std::size_t i = 0; i < reference.steps.size(); ++i) {
    most.loss = std::max(most.loss, relative(reference.steps[i].loss, other.steps[i].loss));
    most.grad_norm =
        std::max(most.grad_norm, relative(reference.steps[i].grad_norm, other.steps[i].grad_norm));
  }
  for_each_tensor(
      reference.gradients, other.gradients,
      [&](const std::string& name, const auto& x, const auto& y) {
        if (is_key_bias(name)) return;  // the true gradient is zero: noise over noise
        double norm = 0, distance = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          norm += static_cast<double>(x[i]) * x[i];
          distance += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
        }
        const double error = finite_or_huge(std::sqrt(distance / std::max(norm, 1e-300)));
        if (error > most.gradient) most.gradient = error, most.worst_gradient = name;
      });
  for_each_tensor(reference.parameters, other.parameters,
                  [&](const std::string& name, const auto& x, const auto& y) {
                    if (is_key_bias(name))
                      return;  // AdamW turns the noise of its gradient into steps
                    for (std::size_t i = 0; i < x.size(); ++i) {
                      const double error =
                          finite_or_huge(std::abs(static_cast<double>(x[i]) - y[i]));
                      if (error > most.parameter)
                        most.parameter = error, most.worst_parameter = name;
                    }
                  });
  return most;
}

std::string describe(const Difference& d) {
  return str("loss ", d.loss, ", grad_norm ", d.grad_norm, ", gradient ", d.gradient, " (",
             d.worst_gradient, "), parameter ", d.parameter, " (", d.worst_parameter, ")");
}

bool within_limits(const Difference& d) {
  return d.loss <= 2e-7 && d.grad_norm <= 1e-5 && d.gradient <= 1e-5 && d.parameter <= 3e-5;
}

}  // namespace trireme::test
