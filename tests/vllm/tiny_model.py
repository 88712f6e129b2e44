"""A Qwen3 model of random weights, and a tokenizer for it: tiny_model.py FOLDER [SEED]

Run with the Python of vLLM's environment. Nothing is downloaded: the vocabulary comes from
Python's own library, so that code costs about as many tokens as with a real model.
"""

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 4096
TURN, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{TURN}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{TURN}assistant\n{{% endif %}}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, TURN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train([str(file) for file in files], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token=END, pad_token=PAD, chat_template=CHAT_TEMPLATE
    )


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.manual_seed(seed)
    words = tokenizer()
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words.save_pretrained(folder)
    print(f"seed {seed}: {folder}")


if __name__ == "__main__":
    main()
