"""The demo model's network: Qwen2 (arXiv 2407.10671) with the parameter names of its checkpoints, for training only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network; `heads` share `kv_heads` keys and values (grouped-query attention)."""

    vocab: int = 6144
    hidden: int = 256
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int = 768
    context: int = 2048
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        """Values a head."""
        return self.hidden // self.heads

    def config(self, end_id: int, pad_id: int) -> dict[str, object]:
        """config.json of the checkpoint."""
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "attention_dropout": 0.0,
            "eos_token_id": end_id,
            "pad_token_id": pad_id,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.feed_forward,
            "max_position_embeddings": self.context,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": self.norm_eps,
            "rope_theta": self.rope_theta,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": self.vocab,
        }


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions; [batch, tokens, hidden] in and out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, wide)
        self.k_proj = nn.Linear(shape.hidden, narrow)
        self.v_proj = nn.Linear(shape.hidden, narrow)
        self.o_proj = nn.Linear(wide, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attention of every token to those before it."""
        batch, tokens, _ = x.shape

        def heads(projected: Tensor) -> Tensor:
            return projected.view(batch, tokens, -1, self.shape.head_dim).transpose(1, 2)

        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        repeat = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, tokens, -1))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding over halves (arXiv 2104.09864); `cos`, `sin`: [tokens, head_dim / 2]."""
    one, two = x.float().chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1).to(x.dtype)


class FeedForward(nn.Module):
    """The gated feed-forward layer (SwiGLU)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The gated feed-forward."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each behind its norm and added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=shape.norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """One layer."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Network(nn.Module):
    """Tokens [batch, tokens] to logits [batch, tokens, vocab]; the embedding is the output head too."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.norm_eps)
        powers = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
        angles = torch.outer(torch.arange(shape.context, dtype=torch.float32), shape.rope_theta**-powers)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self._start()

    def _start(self) -> None:
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    nn.init.zeros_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits: [batch, tokens] in, [batch, tokens, vocab] out."""
        x = self.embed_tokens(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embed_tokens.weight)

    def checkpoint(self) -> dict[str, Tensor]:
        """The weights under their names in a Qwen2 checkpoint, in bfloat16."""
        return {
            f"model.{name}": w.detach().to("cpu", torch.bfloat16).contiguous() for name, w in self.named_parameters()
        }
