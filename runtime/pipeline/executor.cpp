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

// A result that a chunk of this rank computes; a sum of it is kept where it is one number.
struct KeptResult {
  int chunk, result;
  bool in_backward;
  Tensor first;   // in slot 0
  Buffer copies;  // host: one number a micro-batch
  bool is_number() const {
    return first.count() == 1 && (first.dtype == DType::f32 || first.dtype == DType::f64);
  }
};

double number_at(const std::byte* data, DType dtype) {
  float narrow = 0;
  double wide = 0;
  if (dtype == DType::f64) {
    std::memcpy(&wide, data, sizeof wide);
    return wide;
  }
  std::memcpy(&narrow, data, sizeof narrow);
  return static_cast<double>(narrow);
}

}  // namespace

struct PipelineExecutor::State {
  StageProgram program;
  std::vector<PipelineChunk> chunks;
  Communicator& axis;
  Stream& stream;
  std::vector<LaidOutExchange> exchanges;
  std::vector<std::vector<MicroBatch>> in_flight;  // chunk, slot
  std::vector<KeptResult> kept;
  std::unique_ptr<Event> copied;  // those that are numbers

  State(StageProgram program_, std::vector<PipelineChunk> chunks_, Communicator& axis_,
        Stream& stream_)
      : program(std::move(program_)), chunks(std::move(chunks_)), axis(axis_), stream(stream_) {
    check();
    for (const Exchange& exchange : program.exchanges) exchanges.push_back(lay_out(exchange));
    for (const int slots : program.slots) in_flight.emplace_back(at(slots));
    for (int c = 0; c < program.shape.chunks; ++c) keep_results(c);
    if (!kept.empty()) copied = stream.device().make_event();
  }

  void keep_results(int c) {
    const PipelineChunk& chunk = chunks[at(c)];
    for (int i = 0; i < chunk.plan->results(); ++i) {
      if (!chunk.plan->computes(i)) continue;
      KeptResult result{c, i, chunk.plan->result_in_backward(i), chunk.executor->result(0, i), {}};
      if (result.is_number())
        result.copies =
            stream.device().allocate_pinned(program.shape.micro_batches * result.first.bytes());
      kept.push_back(std::move(result));
    }
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
    const bool forward = kind == WorkKind::forward;
    if (kind == WorkKind::backward_weight) return;
    for (const KeptResult& result : kept)
      if (result.chunk == c && result.in_backward != forward)
        keep(result, executor.result(action.slot, result.result), number, source);
  }

  void keep(const KeptResult& kept_result, const Tensor& result, Index number,
            MicroBatchSource& source) {
    if (kept_result.result == 0) source.on_result(number, result);
    if (!kept_result.is_number()) return;
    stream.copy(kept_result.copies.data() + number * result.bytes(), result.data, result.bytes());
    copied->record(stream);
    source.on_queued(MicroBatchSource::Queued::result);
  }

  double sum(int i) {
    for (const KeptResult& result : kept) {
      if (result.result != i || !result.is_number()) continue;
      copied->synchronize();
      double sum = 0;
      for (Index m = 0; m < program.shape.micro_batches; ++m)
        sum += number_at(result.copies.data() + m * result.first.bytes(), result.first.dtype);
      return sum;
    }
    return 0;
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

double PipelineExecutor::sum(int result) { return state_->sum(result); }

const StageProgram& PipelineExecutor::program() const { return state_->program; }

}  // namespace trireme
