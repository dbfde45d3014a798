#include "tests/virtual_clock/tasks.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::virtual_clock {

using emulation::Fiber;

struct Tasks::Task {
  Task(Tasks& owner_, int number_) : owner(owner_), number(number_) {}

  Tasks& owner;
  int number;
  Fiber fiber{Fiber::NewStack::yes};
  bool ended = true;
  FunctionRef<std::string()>* waits_for = nullptr;
};

Tasks::Tasks(int count) {
  for (int i = 0; i < count; ++i) tasks_.push_back(std::make_unique<Task>(*this, i));
}
Tasks::~Tasks() = default;

void Tasks::enter(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  Tasks& tasks = task.owner;
  Fiber::started();
  try {
    (*tasks.body_)(task.number);
  } catch (const std::exception& error) {
    tasks.fail(std::current_exception(), str("rank ", task.number, " has failed: ", error.what()));
  }
  task.ended = true;
  tasks.moved_ = true;
  task.fiber.switch_to(tasks.thread_, Fiber::Leaving::for_good);
}

void Tasks::resume(Task& task) {
  current_ = &task;
  thread_.switch_to(task.fiber, Fiber::Leaving::for_now);
  current_ = nullptr;
}

bool Tasks::all_ended() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return task->ended; });
}

void Tasks::fail(std::exception_ptr error, const std::string& text) {
  if (error_) return;
  error_ = std::move(error);
  failure_ = text;
}

std::string Tasks::describe_waits() const {
  constexpr int most = 4;
  std::string text = "no simulated rank can continue:";
  int named = 0;
  for (const auto& task : tasks_)
    if (!task->ended && named++ < most)
      text += str(" rank ", task->number, " waits for ", (*task->waits_for)(), ';');
  if (named > most) text += str(" and ", named - most, " more;");
  text.pop_back();
  return text;
}

void Tasks::run(const std::function<void(int)>& body) {
  body_ = &body;
  error_ = nullptr;
  for (const auto& task : tasks_) {
    task->ended = false;
    task->fiber.prepare(&Tasks::enter, task.get());
  }
  while (!all_ended()) {
    moved_ = false;
    for (const auto& task : tasks_)
      if (!task->ended) resume(*task);
    if (!moved_ && !all_ended()) {
      const std::string waits = describe_waits();
      fail(std::make_exception_ptr(Error(waits)), waits);
    }
  }
  if (error_) std::rethrow_exception(error_);
}

void Tasks::wait_until(FunctionRef<bool()> done, FunctionRef<std::string()> what) {
  Task& task = *current_;
  task.waits_for = &what;
  while (!done()) {
    task.fiber.switch_to(thread_, Fiber::Leaving::for_now);
    if (error_) throw Error(failure_);
  }
  moved_ = true;
}

}  // namespace trireme::virtual_clock
