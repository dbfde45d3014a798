// Options of Megatron-LM, nanoGPT, the Hugging Face Trainer, DeepSpeed and torchtitan that people
// type from habit. The option here that is nearest in spelling is often another thing.
#include "runtime/options/foreign_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace trireme::options {
namespace {

constexpr ForeignName table[] = {
    // Sizes and batches.
    {"n-layer n-layers num-hidden-layers encoder-num-layers decoder-num-layers",
     "use --num-layers N"},
    {"n-head n-heads num-heads", "use --num-attention-heads N"},
    {"n-kv-heads num-key-value-heads num-kv-heads", "use --num-query-groups N"},
    {"n-embd d-model hidden-dim", "use --hidden-size N"},
    {"intermediate-size d-ff mlp-hidden-size", "use --ffn-hidden-size N"},
    {"block-size seq-len max-seq-length max-seq-len max-length context-length n-ctx "
     "encoder-seq-length decoder-seq-length sequence-length",
     "use --seq-length N"},
    {"batch-size",
     "use --micro-batch-size N, the samples of one forward pass, or --global-batch-size N, those "
     "of a step over all ranks"},
    {"per-device-train-batch-size train-micro-batch-size-per-gpu local-batch-size",
     "use --micro-batch-size N"},
    {"train-batch-size", "use --global-batch-size N"},
    {"gradient-accumulation-steps",
     "use --global-batch-size, which is data parallel size x --micro-batch-size x accumulation "
     "steps"},
    {"rampup-batch-size", "trireme has none: --global-batch-size is the same in all steps", 3,
     true},
    {"head-dim head-size d-head", "use --kv-channels N"},
    {"make-vocab-size-divisible-by", "leave it out: --vocab-size need not divide by anything"},
    // The model.
    {"model-name-or-path flavor model-name", "use --model PRESET and the options that refine it"},
    {"swiglu", "use --activation swiglu"},
    {"squared-relu geglu quick-geglu hidden-act activation-function",
     "use --activation with gelu-tanh, gelu-erf or swiglu"},
    {"use-rotary-position-embeddings no-position-embedding use-rope rope",
     "use --position-embedding-type rope"},
    {"rotary-percent rotary-interleaved",
     "trireme has none: --position-embedding-type rope turns all channels of a head, with the "
     "period of --rotary-base",
     1, true},
    {"alibi use-alibi t5-bias relative-position-embedding",
     "trireme has none: positions enter by --position-embedding-type learned_absolute or rope", 1,
     true},
    {"attention-window sliding-window window-size use-sliding-window max-window-layers",
     "trireme has none: attention sees the whole sample; up to the length of a window, "
     "--seq-length "
     "computes the same",
     1, true},
    {"attn-logit-softcapping final-logit-softcapping logit-softcap softcap",
     "trireme has none: logits are not capped", 1, true},
    {"use-rope-scaling", "use --rope-type llama3, with --rope-scaling-factor X"},
    {"rope-scaling", "use --rope-type with linear, llama3 or yarn"},
    {"rotary-seq-len-interpolation-factor", "use --rope-type linear with --rope-scaling-factor X"},
    {"rotary-scaling-factor yarn-rotary-scaling-factor", "use --rope-scaling-factor X"},
    {"original-max-position-embeddings yarn-original-max-position-embeddings",
     "use --rope-original-positions N"},
    {"beta-fast", "use --yarn-beta-fast X"},
    {"beta-slow", "use --yarn-beta-slow X"},
    {"mscale mscale-all-dim yarn-mscale yarn-mscale-all-dim", "use --yarn-attention-factor X"},
    {"qkv-bias", "use --disable-bias-linear with --add-qkv-bias"},
    {"attention-bias", "use --disable-bias-linear with --add-attention-bias"},
    {"qk-norm use-qk-norm qk-layer-norm", "use --qk-layernorm"},
    {"rope-theta", "use --rotary-base X"},
    {"group-query-attention multi-query-attention", "leave it out: --num-query-groups N says it"},
    {"rms-norm rmsnorm", "use --normalization RMSNorm"},
    {"rms-norm-eps layernorm-epsilon layer-norm-epsilon", "use --norm-epsilon X"},
    {"bias", "linear layers have biases unless --disable-bias-linear is given"},
    {"tie-word-embeddings tie-embeddings share-embeddings-and-output-weights",
     "leave it out: the output layer is the embedding unless "
     "--untie-embeddings-and-output-weights is given"},
    {"dropout", "use --hidden-dropout X"},
    {"attention-dropout attn-dropout",
     "leave it out: trireme drops no attention weights; --hidden-dropout drops activations"},
    {"initializer-range", "use --init-method-std X"},
    {"num-experts moe experts num-moe-experts num-local-experts num-experts-per-tok "
     "moe-router-topk "
     "moe-grouped-gemm moe-aux-loss-coeff expert-model-parallel-size expert-parallel-size ep",
     "trireme has no experts: all of a model computes each token", 1, true},
    {"mtp-num-layers multi-token-prediction num-nextn-predict-layers",
     "trireme has none: the loss is that of the next token", 1, true},
    // Training a part.
    {"lora use-lora lora-rank lora-r lora-alpha lora-dropout lora-target-modules peft use-peft "
     "peft-type adapter adapters dora",
     "trireme has no adapters: it trains the weights themselves, and --freeze PARTS leaves parts "
     "of "
     "them as they are",
     1, true},
    {"qlora load-in-8bit load-in-4bit 8bit 8-bit 4bit 4-bit bits quantize quantization "
     "bnb-4bit-quant-type "
     "use-8bit-adam adam-8bit use-8bit-optimizer optimizer-8bit",
     "trireme has no quantised weights or states; --bf16 computes with 2 bytes a weight", 1, true},
    {"freeze-layers num-freeze-layers freeze-layer unfreeze", "use --freeze PARTS"},
    {"packing pack packed-sequences sample-packing sequence-packing",
     "leave it out: documents always follow each other in a sample of --data-path, and attention "
     "crosses them"},
    {"chat-template apply-chat-template conversation-template messages train-on-inputs mask-prompt "
     "completion-only-loss assistant-only-loss response-template sft",
     "trireme has no chat templates and no mask of the loss: all tokens of --data-path are learned",
     1, true},
    {"dpo ppo grpo kto orpo rlhf reward-model ref-model",
     "trireme has none: it learns the next token of --data-path", 1, true},
    {"ema use-ema ema-decay swa", "trireme has none: it keeps no average of the weights", 1, true},
    {"label-smoothing label-smoothing-factor z-loss z-loss-coeff neftune-noise-alpha",
     "trireme has none: the loss is the plain cross-entropy", 1, true},
    // Precision.
    {"fp16 half loss-scale initial-loss-scale min-loss-scale loss-scale-window hysteresis",
     "use --bf16, which needs no loss scaling"},
    {"bfloat16 dtype mixed-precision mixed-precision-param precision torch-dtype",
     "use --bf16; without it all is computed in fp32"},
    {"fp8 fp8-format fp8-hybrid fp8-recipe fp4 mxfp8", "trireme has no fp8; use --bf16", 1, true},
    {"accumulate-allreduce-grads-in-fp32 attention-softmax-in-fp32",
     "leave it out: these sums are in fp32 with --bf16 too"},
    {"tf32", "trireme has none: without --bf16 products are computed in fp32"},
    // Length of training and learning rate.
    {"max-iters max-steps steps num-iters num-steps train-steps", "use --train-iters N"},
    {"epochs num-epochs num-train-epochs max-epochs",
     "use --train-iters N, steps; the log says how many an epoch has"},
    {"train-samples train-tokens", "use --train-iters N, which is samples / --global-batch-size"},
    {"learning-rate max-lr peak-lr", "use --lr X"},
    {"warmup warmup-iters warmup-steps num-warmup-steps warmup-ratio lr-warmup-fraction "
     "lr-warmup-samples",
     "use --lr-warmup-iters N, steps"},
    {"lr-decay-samples lr-decay-steps", "use --lr-decay-iters N, steps"},
    {"lr-scheduler-type lr-scheduler lr-schedule", "use --lr-decay-style"},
    {"decay-lr", "leave it out, or use --lr-decay-style constant for no decay"},
    {"override-opt-param-scheduler use-checkpoint-opt-param-scheduler",
     "leave it out: the learning rate always follows the options of this job, such as --lr"},
    {"start-weight-decay end-weight-decay weight-decay-incr-style",
     "trireme has none: --weight-decay is the same in all steps", 1, true},
    {"optim optimizer-type", "use --optimizer adamw or --optimizer sgd"},
    {"muon use-muon muon-momentum lion adafactor shampoo soap sophia galore lamb",
     "trireme has none: it has --optimizer adamw and --optimizer sgd", 1, true},
    {"early-stopping early-stopping-patience patience",
     "trireme has none: it trains --train-iters steps", 1, true},
    {"beta1", "use --adam-beta1 X"},
    {"beta2", "use --adam-beta2 X"},
    {"betas", "use --adam-beta1 X and --adam-beta2 X", 2},
    {"eps adam-epsilon", "use --adam-eps X"},
    {"grad-clip max-grad-norm gradient-clipping max-norm clip-grad-norm", "use --clip-grad X"},
    {"exit-duration-in-mins", "use --exit-duration-seconds X, 60 times as many"},
    {"exit-interval", "use --train-iters N, with --lr-decay-iters for the whole run's decay"},
    {"exit-signal-handler", "leave it out: with --save, SIGTERM and SIGUSR1 save and stop"},
    // Ranks.
    {"tensor-parallel-degree tensor-parallel tp-size model-parallel-size",
     "use --tensor-model-parallel-size N"},
    {"pipeline-parallel-degree pipeline-parallel pp-size pipeline-parallel-size",
     "use --pipeline-model-parallel-size N"},
    {"pipeline-parallel-schedule pipeline-schedule", "use --schedule"},
    {"num-layers-per-virtual-pipeline-stage virtual-pipeline-model-parallel-size vpp",
     "use --num-virtual-stages-per-pipeline-rank, which is --num-layers / "
     "--pipeline-model-parallel-size / layers of a virtual stage"},
    {"decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers",
     "trireme has none: it cuts the layers into stages of equal cost"},
    {"data-parallel-size dp world-size nproc-per-node nnodes num-nodes node-rank local-rank "
     "master-addr master-port data-parallel-replicate-degree",
     "leave it out: mpirun -np N starts the ranks, and data parallel size is ranks / "
     "--tensor-model-parallel-size / --pipeline-model-parallel-size"},
    {"context-parallel-size context-parallel-degree cp cp-size",
     "trireme has no context parallelism; --sequence-parallel splits norms and dropout over the "
     "tensor ranks",
     1, true},
    {"zero-stage zero zero-optimization fsdp use-fsdp use-torch-fsdp2 "
     "data-parallel-shard-degree data-parallel-sharding-strategy",
     "use --use-distributed-optimizer (ZeRO-1); parameters and gradients are not split over data "
     "ranks",
     1, true},
    {"offload cpu-offload offload-optimizer optimizer-cpu-offload optimizer-offload-fraction",
     "trireme has none; --use-distributed-optimizer shares the optimizer's state over data ranks",
     1, true},
    {"deepspeed deepspeed-config config-file", "use --config FILE, a TOML file of these options"},
    {"distributed-backend backend use-cpu no-cuda",
     "use --device cpu or --device cuda; the transport follows from it"},
    {"distributed-timeout-minutes",
     "trireme has none: a rank that fails ends the job with its message"},
    {"overlap-grad-reduce overlap-param-gather overlap-param-gather-with-optimizer-step "
     "tp-comm-overlap no-async-tensor-model-parallel-allreduce overlap-p2p-communication "
     "delay-grad-reduce",
     "leave it out: trireme decides what runs beside what"},
    // Speed and memory.
    {"use-flash-attn flash-attn flash-attention attention-backend",
     "leave it out: attention never keeps its matrix of scores; --attention chooses kernels on a "
     "GPU"},
    {"recompute-activations checkpoint-activations gradient-checkpointing activation-checkpointing",
     "use --recompute-granularity selective, or full"},
    {"recompute-method recompute-num-layers recompute-modules distribute-saved-activations",
     "leave it out: --recompute-granularity holds for all layers"},
    {"compile torch-compile use-mcore-models use-legacy-models transformer-impl bias-gelu-fusion "
     "no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-masked-softmax-fusion "
     "no-gradient-accumulation-fusion no-rope-fusion no-persist-layer-norm "
     "apply-query-key-layer-scaling use-cpu-initialization "
     "cross-entropy-loss-fusion empty-unused-memory-level manual-gc enable-cuda-graph",
     "leave it out: trireme has no such choice"},
    {"apply-layernorm-1p", "trireme has none: norms multiply by their weights, not by 1 more", 1,
     true},
    {"deterministic deterministic-mode full-determinism",
     "leave it out: a run repeats bit for bit on the same layout"},
    // Data.
    {"dataset dataset-name train-file train-data-path data-dir data-args-path",
     "use --data-path PREFIX, which 'trireme data prepare' makes from text"},
    {"valid-data-path test-data-path validation-file validation-data-path",
     "use --split A,B,C: the parts of --data-path for training, validation and test"},
    {"mock-data", "trireme has none; 'trireme data prepare' makes --data-path from any text"},
    {"data-cache-path num-workers dataloader-num-workers dataloader-type no-mmap-bin-files "
     "no-create-attention-mask-in-dataloader data-impl",
     "leave it out: trireme reads --data-path without workers or caches"},
    {"reset-attention-mask", "trireme has none: attention crosses the documents of a sample", 0,
     true},
    {"reset-position-ids", "trireme has none: positions count on across the documents of a sample",
     0, true},
    {"eod-mask-loss",
     "trireme has none: the loss crosses documents, and the end of a document counts as any token",
     0, true},
    {"streaming dataset-streaming", "trireme has none: --data-path holds all tokens before the run",
     1, true},
    {"push-to-hub hub-model-id hub-token",
     "trireme has none: 'trireme hf export' writes a directory", 1, true},
    {"tokenizer-type tokenizer-model tokenizer-name-or-path vocab-file merge-file",
     "leave it out: --data-path holds tokens already ('trireme data prepare'); --vocab-size N is "
     "the size of their vocabulary"},
    // Evaluation and generation.
    {"eval-steps eval-freq", "use --eval-interval N"},
    {"eval-strategy evaluation-strategy do-eval eval-only per-device-eval-batch-size",
     "use --eval-interval N and --eval-iters N"},
    {"max-new-tokens num-tokens-to-generate out-seq-length num-samples", "use --generate N"},
    {"top-k-sampling top-p-sampling", "use --top-k N and --top-p X"},
    {"start", "use --prompt TEXT"},
    // Checkpoints.
    {"out-dir output-dir save-dir checkpoint-dir", "use --save DIR"},
    {"save-steps checkpoint-interval save-every", "use --save-interval N"},
    {"save-strategy always-save-checkpoint", "use --save-interval N; the end is always saved"},
    {"save-total-limit keep-latest-k", "use --keep-last N"},
    {"resume resume-from-checkpoint init-from", "use --load DIR"},
    {"pretrained-checkpoint", "use --load DIR with --finetune"},
    {"ckpt-format dist-ckpt-format use-dist-ckpt auto-detect-ckpt-format ckpt-fully-parallel-save "
     "ckpt-fully-parallel-load ckpt-assume-constant-structure",
     "leave it out: there is one format, and --load takes it on any layout"},
    {"no-load-rng no-save-rng",
     "leave it out: random numbers follow from --seed and the step, and are not saved"},
    {"no-save-optim",
     "trireme has none: --save writes the optimizer's state; --no-load-optim leaves it out later"},
    {"async-mode", "use --async-save or --no-async-save"},
    // Reports.
    {"tensorboard-dir tensorboard-log-interval tensorboard-queue-size log-timers-to-tensorboard "
     "log-validation-ppl-to-tensorboard enable-tensorboard enable-wandb wandb-log wandb-project "
     "wandb-exp-name wandb-run-name wandb-save-dir report-to logging-dir",
     "use --metrics FILE, one JSON object a step", 1, true},
    {"logging-steps log-freq steps-per-print log-every", "use --log-interval N"},
    {"log-throughput log-learning-rate log-params-norm log-num-zeros-in-grad log-memory",
     "leave it out: each line of the log has what trireme measures; --log-interval sets how many "
     "steps it covers"},
    {"profile use-pytorch-profiler enable-profiling profile-step-start profile-step-end "
     "profile-ranks timing-log-level timing-log-option",
     "use --profile-ops FILE and --profile-step N"},
    {"check-for-nan-in-loss-and-grad no-check-for-nan-in-loss-and-grad detect-anomaly",
     "use --check-finite; without it a step whose gradients are not finite makes no update"},
    {"verbose debug", "use --log-level debug"},
};

/// Lower case, '-' for '_', without dashes in front, a value behind, or a section's name
/// ("--training.steps").
std::string plain_name(std::string word) {
  word = word.substr(0, word.find('='));
  word.erase(0, word.find_first_not_of('-'));
  if (const std::size_t dot = word.rfind('.'); dot != std::string::npos) word.erase(0, dot + 1);
  for (char& c : word)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

bool has_name(std::string_view names, const std::string& name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const ForeignName> foreign_names() { return table; }

const ForeignName* find_foreign_name(const std::string& word) {
  const std::string name = plain_name(word);
  if (name.empty()) return nullptr;
  const auto found =
      std::find_if(std::begin(table), std::end(table),
                   [&](const ForeignName& entry) { return has_name(entry.names, name); });
  return found == std::end(table) ? nullptr : found;
}

std::vector<std::string> options_in(const std::string& answer) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::vector<std::string> all;
  for (std::size_t at = answer.find("--"); at != std::string::npos;) {
    const std::size_t end = std::min(answer.find_first_not_of(letters, at), answer.size());
    all.push_back(answer.substr(at, end - at));
    at = answer.find("--", end);
  }
  return all;
}

}  // namespace trireme::options
