"""What tests of the recipes for exports share: a small model of each family, and programs."""
import os
import subprocess
import sys

LICENCES = ["/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]


def write_model(directory, family, tokenizer, positions, spread):
    """A model of two layers, its weights random with the standard deviation `spread`, and
    `tokenizer`, of transformers. It has two tokens more than that."""
    import torch
    import transformers
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)
    more = {"vocab_size": len(tokenizer) + 2, "initializer_range": spread,
            "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if family == "gpt2":
        config = transformers.GPT2Config(n_embd=128, n_layer=2, n_head=2, n_positions=positions,
                                         **more)
    else:
        make = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[family]
        config = make(hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
                      num_key_value_heads=1, head_dim=64, intermediate_size=192,
                      max_position_embeddings=positions, tie_word_embeddings=family == "qwen3",
                      **more)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def run(command, work, **more):
    """In the directory `work`. Ends this program with its output when it fails."""
    done = subprocess.run([str(word) for word in command], cwd=work, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")


def offline(work):
    """The environment of programs of Python that use no network and keep their files in `work`."""
    return dict(os.environ, HF_HOME=str(work / "cache"), HF_HUB_OFFLINE="1",
                HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                VLLM_CACHE_ROOT=str(work / "cache"), VLLM_NO_USAGE_STATS="1",
                VLLM_CPU_KVCACHE_SPACE="1")
