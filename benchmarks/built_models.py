"""Small models from diffusers and timm, as examples for `prescriptions.py`.

    python benchmarks/built_models.py > examples.json

`tested_models.py` extracts models from tests that are written in a way that these libraries do not use. Here, models
are called with the inputs shown in their documentation. The output gives the break sites that each one runs. The
libraries must be on PYTHONPATH, and timm needs torchvision.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Example = tuple[Any, tuple[Any, ...], dict[str, Any]]

_SITES = {
    "hidream": ("diffusers/models/transformers/transformer_hidream_image.py", (389, 393, 696)),
    "lumina2": ("diffusers/models/transformers/transformer_lumina2.py", (273,)),
    "mochi": ("diffusers/models/attention_processor.py", (1068,)),
    "sequencer": ("timm/models/sequencer.py", (137,)),
}


def sequencer() -> Example:
    """Return a vision model with recurrent layers."""
    import torch
    from timm.models.sequencer import Sequencer2d

    model = Sequencer2d(
        num_classes=5,
        img_size=32,
        layers=(1, 1),
        patch_sizes=(4, 2),
        embed_dims=(16, 32),
        hidden_sizes=(4, 8),
        mlp_ratios=(2.0, 2.0),
    )
    return model.eval(), (torch.randn(2, 3, 32, 32),), {}


def mochi() -> Example:
    """Return a video transformer with prompts of different lengths."""
    import torch
    from diffusers.models.transformers.transformer_mochi import MochiTransformer3DModel

    model = MochiTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=2,
        pooled_projection_dim=16,
        text_embed_dim=16,
        time_embed_dim=4,
        max_sequence_length=16,
    )
    inputs = {
        "hidden_states": torch.randn(2, 12, 2, 16, 16),
        "encoder_hidden_states": torch.randn(2, 16, 16),
        "timestep": torch.tensor([3, 5]),
        "encoder_attention_mask": torch.arange(16) < torch.tensor([[10], [12]]),
    }
    return model.eval(), (), inputs


def lumina2() -> Example:
    """Return an image transformer with prompts of different lengths."""
    import torch
    from diffusers.models.transformers.transformer_lumina2 import Lumina2Transformer2DModel

    model = Lumina2Transformer2DModel(
        sample_size=16,
        in_channels=4,
        hidden_size=24,
        num_layers=2,
        num_refiner_layers=1,
        num_attention_heads=3,
        num_kv_heads=1,
        multiple_of=2,
        axes_dim_rope=(4, 2, 2),
        axes_lens=(128, 128, 128),
        cap_feat_dim=8,
    )
    inputs = {
        "hidden_states": torch.randn(2, 4, 16, 16),
        "timestep": torch.tensor([0.3, 0.5]),
        "encoder_hidden_states": torch.randn(2, 16, 8),
        "encoder_attention_mask": torch.arange(16) < torch.tensor([[16], [12]]),
    }
    return model.eval(), (), inputs


def hidream() -> Example:
    """Return an image transformer with a mixture of experts and a non-square image."""
    import torch
    from diffusers.models.transformers.transformer_hidream_image import HiDreamImageTransformer2DModel

    model = HiDreamImageTransformer2DModel(
        patch_size=2,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_channels=[32, 16],
        text_emb_dim=64,
        axes_dims_rope=(4, 2, 2),
        max_resolution=(32, 32),
        llama_layers=(0, 1),
        force_inference_output=True,
    )
    inputs = {
        "hidden_states": torch.randn(2, 4, 16, 8),
        "timesteps": torch.tensor([3, 5]),
        "encoder_hidden_states_t5": torch.randn(2, 8, 32),
        "encoder_hidden_states_llama3": torch.randn(2, 2, 8, 16),
        "pooled_embeds": torch.randn(2, 64),
    }
    return model.eval(), (), inputs


if __name__ == "__main__":
    path = Path(__file__).resolve()
    sites = {f"{path}:{name}": [f"{file}:{line}" for line in lines] for name, (file, lines) in _SITES.items()}
    json.dump(sites, sys.stdout)
