#include "runtime/observe/remote/start_agent.h"

#include <vector>

#include "runtime/core/process/child.h"

namespace trireme::observe {

void start_agent(const std::string& program, const std::string& directory) {
  ChildOptions options{.output = ChildOptions::Output::file,
                       .file = "/dev/null",  // the launcher waits until its own is closed
                       .errors = false,
                       .outlives = true};
  std::erase_if(options.environment, [](const std::string& variable) {  // which make it a rank
    return variable.starts_with("OMPI_") || variable.starts_with("PMIX_");
  });
  const Child agent({program, "report-pages", directory}, std::move(options));
}

}  // namespace trireme::observe
