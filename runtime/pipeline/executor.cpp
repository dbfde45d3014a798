#include "runtime/pipeline/executor.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/at.h"

namespace trireme {

namespace {

struct LocalCopy {
  void* to;
  const void* from;
  Index bytes;
};

// An exchange with addresses instead of names. Transfers of no bytes are left out, on both sides
// alike.
struct LaidOutExchange {
  std::vector<Message> sends, receives;
  std::vector<LocalCopy> copies;
  Ticket ticket;
  bool communicates() const { return !sends.empty() || !receives.empty(); }
};

}  // namespace

struct PipelineExecutor::State {
  StageProgram program;
  std::vector<PipelineChunk> chunks;
  Communicator& axis;
  Stream& stream;
  std::vector<LaidOutExchange> exchanges;
  std::vector<std::vector<MicroBatch>> in_flight;  // chunk, slot
  Buffer losses;                                   // host: one f64 or f32 a micro-batch
  std::unique_ptr<Event> losses_copied;

  State(StageProgram program_, std::vector<PipelineChunk> chunks_, Communicator& axis_,
        Stream& stream_)
      : program(std::move(program_)), chunks(std::move(chunks_)), axis(axis_), stream(stream_) {
    check();
    for (const Exchange& exchange : program.exchanges) exchanges.push_back(lay_out(exchange));
    for (const int slots : program.slots) in_flight.emplace_back(at(slots));
    if (program.stage < program.shape.stages - 1) return;
    losses = stream.device().allocate_pinned(program.shape.micro_batches * size_bytes(DType::f64));
    losses_copied = stream.device().make_event();
  }

  void check() const {
    const PipelineShape& shape = program.shape;
    require(axis.size() == shape.stages && axis.rank() == program.stage, "the program of stage ",
            program.stage, " of ", shape.stages, " was given to rank ", axis.rank(), " of ",
            axis.size(), " of the axis '", axis.name(), "'");
    require(static_cast<int>(chunks.size()) == shape.chunks, "the program has ", shape.chunks,
            " chunks, but there are ", chunks.size(), " executors");
    for (int c = 0; c < shape.chunks; ++c) {
      const Plan& plan = *chunks[at(c)].plan;
      const int v = shape.virtual_stage(program.stage, c);
      require(plan.stage() == v && plan.stages() == shape.virtual_stages(), "chunk ", c,
              " is virtual stage ", v, " of ", shape.virtual_stages(), "; its plan is for ",
              plan.stage(), " of ", plan.stages());
      require(!plan.result_in_backward() || runs_backward(), "chunk ", c,
              " makes its result in backward, but the program has forwards only: it needs a "
              "forward-only plan");
    }
  }

  bool runs_backward() const {
    return std::any_of(program.actions.begin(), program.actions.end(), [](const Action& action) {
      return action.kind == Action::Kind::work && action.work.kind != WorkKind::forward;
    });
  }

  Message message(const Hop& hop, const Transfer& (Plan::*values)() const,
                  const Transfer& (Plan::*gradients)() const) const {
    const PipelineChunk& chunk = chunks[at(hop.chunk)];
    const Transfer& transfer =
        (chunk.plan->*(hop.kind == Hop::Kind::values ? values : gradients))();
    return {hop.peer, chunk.executor->transfer(hop.slot, transfer), transfer.bytes};
  }
  Message sent(const Hop& hop) const {
    return message(hop, &Plan::send_values, &Plan::send_gradients);
  }
  Message received(const Hop& hop) const {
    return message(hop, &Plan::receive_values, &Plan::receive_gradients);
  }

  LaidOutExchange lay_out(const Exchange& exchange) const {
    LaidOutExchange result;
    const auto keep = [](std::vector<Message>& messages, const Message& message) {
      if (message.bytes > 0) messages.push_back(message);
    };
    for (const Hop& hop : exchange.sends) keep(result.sends, sent(hop));
    for (const Hop& hop : exchange.receives) keep(result.receives, received(hop));
    for (const LocalHop& hop : exchange.copies) {
      const Message from = sent(hop.from), to = received(hop.to);
      require(from.bytes == to.bytes, "chunk ", hop.from.chunk, " sends ", from.bytes,
              " bytes, but chunk ", hop.to.chunk, " receives ", to.bytes);
      if (to.bytes > 0) result.copies.push_back({to.data, from.data, to.bytes});
    }
    return result;
  }

  void start(LaidOutExchange& exchange) {
    for (const LocalCopy& copy : exchange.copies) stream.copy(copy.to, copy.from, copy.bytes);
    if (exchange.communicates())
      exchange.ticket = axis.start_exchange(exchange.sends, exchange.receives, stream);
  }

  void wait(LaidOutExchange& exchange) {
    if (exchange.communicates()) axis.wait(exchange.ticket, stream);
  }

  void work(const Action& action, MicroBatchSource& source) {
    const auto [kind, c, number] = action.work;
    Executor& executor = *chunks[at(c)].executor;
    MicroBatch& batch = in_flight[at(c)][at(action.slot)];
    if (kind == WorkKind::forward) {
      batch = source.micro_batch(c, number);
      batch.last = false;
      executor.forward(action.slot, batch);
      batch.inputs = {};  // borrowed for the forward only
    } else {
      batch.last = action.last;
      executor.backward(action.slot, batch,
                        kind == WorkKind::backward         ? BackwardPart::both
                        : kind == WorkKind::backward_input ? BackwardPart::input
                                                           : BackwardPart::parameter);
    }
    if (makes_result(kind, c)) keep_result(executor.result(action.slot), number, source);
  }

  bool makes_result(WorkKind kind, int c) const {
    if (program.shape.virtual_stage(program.stage, c) != program.shape.virtual_stages() - 1)
      return false;
    return chunks[at(c)].plan->result_in_backward()
               ? kind == WorkKind::backward || kind == WorkKind::backward_input
               : kind == WorkKind::forward;
  }

  static bool is_loss(const Tensor& result) {
    return result.count() == 1 && (result.dtype == DType::f32 || result.dtype == DType::f64);
  }

  void keep_result(const Tensor& result, Index number, MicroBatchSource& source) {
    source.on_result(number, result);
    if (!is_loss(result)) return;
    stream.copy(losses.data() + number * size_bytes(result.dtype), result.data, result.bytes());
    losses_copied->record(stream);
    source.on_queued(MicroBatchSource::Queued::result);
  }

  double sum_of_losses() {
    if (!losses) return 0;
    const Tensor result = chunks.back().executor->result(0);
    if (!is_loss(result)) return 0;
    losses_copied->synchronize();
    double sum = 0;
    for (Index i = 0; i < program.shape.micro_batches; ++i) {
      const std::byte* data = losses.data() + i * size_bytes(result.dtype);
      float narrow = 0;
      double wide = 0;
      if (result.dtype == DType::f32) {
        std::memcpy(&narrow, data, sizeof narrow);
        wide = static_cast<double>(narrow);
      } else {
        std::memcpy(&wide, data, sizeof wide);
      }
      sum += wide;
    }
    return sum;
  }
};

PipelineExecutor::PipelineExecutor(StageProgram program, std::vector<PipelineChunk> chunks,
                                   Communicator& pipeline_axis, Stream& stream)
    : state_(
          std::make_unique<State>(std::move(program), std::move(chunks), pipeline_axis, stream)) {}
PipelineExecutor::~PipelineExecutor() = default;
PipelineExecutor::PipelineExecutor(PipelineExecutor&&) noexcept = default;

void PipelineExecutor::start(MicroBatchSource& source) {
  State& s = *state_;
  for (const Action& action : s.program.actions) switch (action.kind) {
      case Action::Kind::work:
        s.work(action, source);
        break;
      case Action::Kind::start:
        s.start(s.exchanges[at(action.exchange)]);
        source.on_queued(MicroBatchSource::Queued::exchange);
        break;
      case Action::Kind::wait:
        s.wait(s.exchanges[at(action.exchange)]);
        source.on_queued(MicroBatchSource::Queued::exchange);
        break;
    }
}

double PipelineExecutor::loss() { return state_->sum_of_losses(); }

const StageProgram& PipelineExecutor::program() const { return state_->program; }

}  // namespace trireme
