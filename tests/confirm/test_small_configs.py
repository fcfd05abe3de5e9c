"""Configurations made small: what belonged together still does."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from torch import nn

from dynalint.confirm.worker.inputs.constructors import constructions
from dynalint.confirm.worker.inputs.small_configs import is_configuration, shrunk

pytestmark = pytest.mark.dynamo


@dataclass
class TextConfig:
    vocab_size: int = 50257
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 6
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    num_experts: int = 64
    num_experts_per_tok: int = 6
    max_position_embeddings: int = 131072
    layer_types: tuple[str, ...] = ("sliding",) * 5 + ("full",)
    hidden_sizes: tuple[int, ...] = (64, 128, 320)
    depths: tuple[int, ...] = (3, 4, 6)
    rope: dict[str, object] | None = None

    def __post_init__(self) -> None:
        self.rope = self.rope or {"kind": "default", "mrope_section": [32, 32]}

    eos_token_id: int = 50256
    pad_token_id: int = 0
    image_token_id: int = 50255
    layer_norm_eps: float = 1e-6
    hidden_act: str = "gelu"
    kernel_size: int = 32


class Whole:
    """Settings of the other kind: a class whose constructor takes keywords, with settings inside."""

    def __init__(self, text_config: TextConfig | None = None, image_size: int = 1024, patch_size: int = 16):
        self.text_config = text_config or TextConfig()
        self.image_size = image_size
        self.patch_size = patch_size


class WholeConfig(Whole):
    pass


def test_widths_are_divided_by_the_same_number_and_counts_are_cut() -> None:
    small = shrunk(TextConfig(), {}, 8)
    assert (small.hidden_size, small.intermediate_size, small.head_dim) == (512, 1376, 16)
    assert small.num_attention_heads * small.head_dim == small.hidden_size
    assert (small.num_attention_heads, small.num_key_value_heads) == (32, 8)
    assert (small.num_hidden_layers, small.num_experts, small.num_experts_per_tok) == (4, 4, 2)
    assert small.rope == {"kind": "default", "mrope_section": [4, 4]}
    assert small.hidden_sizes == (8, 16, 40)
    assert small.depths == (3, 4, 4)
    assert (small.layer_norm_eps, small.hidden_act, small.kernel_size) == (1e-6, "gelu", 32)


def test_there_is_one_layer_of_each_kind() -> None:
    assert shrunk(TextConfig(), {}, 16).layer_types == ("sliding", "full")
    assert shrunk(TextConfig(), {}, 8).layer_types == ("sliding", "full", "sliding", "sliding")


def test_tokens_stay_in_the_vocabulary_and_apart() -> None:
    small = shrunk(TextConfig(), {}, 8)
    assert small.pad_token_id == 0
    assert small.eos_token_id != small.image_token_id
    assert max(small.eos_token_id, small.image_token_id) < small.vocab_size


def test_settings_inside_settings_are_made_small_too() -> None:
    assert is_configuration(WholeConfig)
    small = shrunk(WholeConfig(), {}, 16)
    assert small.text_config.hidden_size == 256
    assert (small.image_size, small.patch_size) == (224, 16)


def test_what_cannot_be_made_small_stays_as_it_is() -> None:
    @dataclass
    class StrictConfig:
        hidden_size: int = 64
        checked: int = field(default=0)

        def __post_init__(self) -> None:
            if self.hidden_size != 64:
                raise ValueError(self.hidden_size)

    assert shrunk(StrictConfig(), {}, 8).hidden_size == 64


class Model(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)


class Declares(nn.Module):
    config_class = TextConfig

    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)


def test_a_model_gets_small_settings_by_annotation_or_declaration() -> None:
    for cls in (Model, Declares):
        make, text = next(constructions(cls))
        assert text == f"{cls.__name__}(config=TextConfig(...))"
        assert make().fc.in_features == 256
